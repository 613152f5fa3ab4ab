//! A chart for Helm: the objects of the Kubernetes export as templates, with values for what users change.
//!
//! [`Values::lift`] moves a part of an object into the values, and leaves an expression in its place. With the values as
//! they are written, the chart is what the Kubernetes export writes.

use serde_json::{Map, Value, json};

use super::manifest::ManifestSet;
use crate::render::export::{ExportOptions, Rendered, RenderedFile};
use crate::render::yaml;

/// In place of the namespace until the templates are text. It is so long that nothing else contains it.
pub(super) const NAMESPACE: &str = "flow-namespace-of-the-release-7c1d0b5e";
/// The namespace in templates.
const RELEASE_NAMESPACE: &str = "{{ .Release.Namespace }}";
/// The beginning and the end of an expression, until templates are text. They are so long that nothing else contains them.
const BEGIN: &str = "flow-begin-of-an-expression-7c1d0b5e-";
const END: &str = "-7c1d0b5e-flow-end-of-an-expression";

/// The chart of an export whose namespace is [`NAMESPACE`].
pub(super) fn chart(exported: ManifestSet, target: &ExportOptions) -> Rendered {
    let ManifestSet {
        label,
        mut manifests,
        remarks,
    } = exported;
    let mut values = Values::new(&target.image);
    for manifest in &mut manifests {
        for object in &mut manifest.objects {
            values.lift_from(object);
        }
    }
    let templates = manifests.iter().map(|manifest| {
        let file = manifest.render(&target.source, "helm");
        RenderedFile {
            path: std::path::Path::new("templates").join(file.path),
            text: template(&file.text),
        }
    });
    let mut files = vec![about(&label, target), values.render(target)];
    files.extend(templates);
    Rendered { files, remarks }
}

fn about(label: &str, target: &ExportOptions) -> RenderedFile {
    let version = env!("CARGO_PKG_VERSION");
    let chart = json!({
        "apiVersion": "v2",
        "name": label,
        "description": format!("The flow of {}", target.source),
        "type": "application",
        "version": version,
        "appVersion": version,
        "kubeVersion": ">=1.30.0-0",
    });
    file("Chart.yaml", target, &chart)
}

fn file(path: &str, target: &ExportOptions, value: &Value) -> RenderedFile {
    let header = format!("# Made from {} by `flow export helm`.\n", target.source);
    RenderedFile {
        path: path.into(),
        text: header + &yaml::document(value),
    }
}

/// The text of a template: what the flow file says is no expression, and what is marked is one.
fn template(text: &str) -> String {
    let text = text.replace("{{", "{{ `{{` }}");
    let text = text.replace(&format!("\"{BEGIN}"), "{{ ");
    let text = text.replace(&format!("{END}\""), " }}");
    let quoted = format!("namespace: {NAMESPACE}\n");
    let text = text.replace(&quoted, "namespace: {{ .Release.Namespace | quote }}\n");
    text.replace(NAMESPACE, RELEASE_NAMESPACE)
}

/// The values of the chart.
struct Values<'i> {
    all: Map<String, Value>,
    /// The image of flow itself.
    image: &'i str,
}

/// How a value gets back into its template.
#[derive(Debug, Clone, Copy)]
enum Shape {
    /// As it is.
    Any,
    /// As text, which Kubernetes wants for some numbers.
    Text,
}

impl<'i> Values<'i> {
    fn new(image: &'i str) -> Self {
        Self {
            all: Map::from_iter([("image".to_owned(), json!(image))]),
            image,
        }
    }

    fn render(&self, target: &ExportOptions) -> RenderedFile {
        file("values.yaml", target, &Value::Object(self.all.clone()))
    }

    /// Moves what people change of an object into the values.
    fn lift_from(&mut self, object: &mut Value) {
        let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str);
        let kind = text("/kind").unwrap_or_default().to_owned();
        let name = text("/metadata/name").unwrap_or_default().to_owned();
        match kind.as_str() {
            "Deployment" | "StatefulSet" => self.lift_from_workload(object, &name),
            "HorizontalPodAutoscaler" => self.lift_from_autoscaler(object, &name),
            "ScaledObject" => self.lift_from_scaled_object(object, &name),
            "HTTPRoute" => {
                self.lift(object, "/spec/hostnames", &["route", "hosts"], Shape::Any);
                self.lift(
                    object,
                    "/spec/parentRefs",
                    &["route", "gateways"],
                    Shape::Any,
                );
            }
            "PersistentVolumeClaim" => {
                let path = ["sharedCache", "size"];
                self.lift(
                    object,
                    "/spec/resources/requests/storage",
                    &path,
                    Shape::Any,
                );
            }
            _ => {}
        }
    }

    fn lift_from_workload(&mut self, object: &mut Value, name: &str) {
        self.lift(
            object,
            "/spec/replicas",
            &["pods", name, "replicas"],
            Shape::Any,
        );
        let container = "/spec/template/spec/containers/0";
        let image = format!("{container}/image");
        let is_own = object.pointer(&image).and_then(Value::as_str) == Some(self.image);
        let path = match is_own {
            true => &["image"][..],
            false => &["pods", name, "image"],
        };
        self.lift(object, &image, path, Shape::Any);
        let resources = format!("{container}/resources");
        self.lift(object, &resources, &["pods", name, "resources"], Shape::Any);
        let pull = "/spec/template/spec/imagePullSecrets";
        self.lift(object, pull, &["imagePullSecrets"], Shape::Any);
        self.lift_secrets(object, "/spec/template/spec/volumes", "/secret/secretName");
        let env = format!("{container}/env");
        self.lift_secrets(object, &env, "/valueFrom/secretKeyRef/name");
        for index in 0..len(object, "/spec/volumeClaimTemplates") {
            let claim = format!("/spec/volumeClaimTemplates/{index}");
            let volume = object.pointer(&format!("{claim}/metadata/name"));
            let volume = volume
                .and_then(Value::as_str)
                .unwrap_or_default()
                .to_owned();
            let size = format!("{claim}/spec/resources/requests/storage");
            self.lift(
                object,
                &size,
                &["pods", name, "storage", &volume],
                Shape::Any,
            );
        }
    }

    /// The names of Secrets in the items of a list.
    fn lift_secrets(&mut self, object: &mut Value, list: &str, pointer: &str) {
        for index in 0..len(object, list) {
            let pointer = format!("{list}/{index}{pointer}");
            let name = object.pointer(&pointer).and_then(Value::as_str);
            if let Some(name) = name.map(str::to_owned) {
                self.lift(object, &pointer, &["secrets", &name], Shape::Any);
            }
        }
    }

    fn lift_from_autoscaler(&mut self, object: &mut Value, name: &str) {
        let target = "/spec/metrics/0/resource/target/averageUtilization";
        let parts = [
            ("/spec/minReplicas", "min"),
            ("/spec/maxReplicas", "max"),
            (target, "cpuPercent"),
        ];
        for (pointer, key) in parts {
            self.lift(
                object,
                pointer,
                &["pods", name, "autoscale", key],
                Shape::Any,
            );
        }
    }

    fn lift_from_scaled_object(&mut self, object: &mut Value, name: &str) {
        let asked = "/spec/triggers/0/metadata";
        let parts = [
            ("/spec/minReplicaCount", "min", Shape::Any),
            ("/spec/maxReplicaCount", "max", Shape::Any),
            (&format!("{asked}/threshold"), "requests", Shape::Text),
        ];
        for (pointer, key, shape) in parts {
            self.lift(object, pointer, &["pods", name, "autoscale", key], shape);
        }
        let prometheus = format!("{asked}/serverAddress");
        self.lift(object, &prometheus, &["prometheus"], Shape::Any);
    }

    /// Moves what is at a JSON pointer into the values, if the object has it.
    fn lift(&mut self, object: &mut Value, pointer: &str, path: &[&str], shape: Shape) {
        let Some(found) = object.pointer_mut(pointer) else {
            return;
        };
        let names: Vec<String> = path.iter().map(|it| format!("`{it}`")).collect();
        let value = format!("(index .Values {})", names.join(" "));
        let expression = match shape {
            Shape::Any => format!("toJson {value}"),
            Shape::Text => format!("toString {value} | toJson"),
        };
        let lifted = std::mem::replace(found, format!("{BEGIN}{expression}{END}").into());
        insert(&mut self.all, path, lifted);
    }
}

/// The number of items of a list; 0 if there is none.
fn len(object: &Value, pointer: &str) -> usize {
    let list = object.pointer(pointer).and_then(Value::as_array);
    list.map_or(0, Vec::len)
}

fn insert(values: &mut Map<String, Value>, path: &[&str], value: Value) {
    match path {
        [] => {}
        [last] => {
            values.insert((*last).to_owned(), value);
        }
        [first, rest @ ..] => {
            let inner = values.entry(*first).or_insert_with(|| json!({}));
            if let Value::Object(inner) = inner {
                insert(inner, rest, value);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_that_looks_like_an_expression_stays_text() {
        let check = |value: &str, expected: &str| {
            let text = template(&yaml::document(&json!({ "a": value })));
            assert_eq!(text, format!("a: {expected}\n"));
        };
        check("{{ .Values.x }}", "\"{{ `{{` }} .Values.x }}\"");
        let marked = format!("{BEGIN}toJson (index .Values `a`){END}");
        check(&marked, "{{ toJson (index .Values `a`) }}");
        let host = format!("echo.{NAMESPACE}.svc");
        check(&host, "echo.{{ .Release.Namespace }}.svc");
    }
}
