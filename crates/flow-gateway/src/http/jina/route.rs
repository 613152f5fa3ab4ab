//! Which endpoint a request calls. Pure.

use flow_spec::HttpOptions;
use http::{Method, StatusCode};

use crate::discovery::OfferedEndpoints;

/// Jina's routes for endpoints with fixed names, with their methods.
pub(crate) const CRUD: [(Method, &str); 4] = [
    (Method::POST, "/index"),
    (Method::POST, "/search"),
    (Method::DELETE, "/delete"),
    (Method::PUT, "/update"),
];

/// The route that calls the endpoint that its body names.
pub(crate) const POST: &str = "/post";

/// What a request asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Route {
    /// A call of an endpoint.
    Call(Call),
    /// The documents that this endpoint makes of one, one by one.
    Stream(String),
}

/// A call of an endpoint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Call {
    /// The endpoint; `None` if the body names it.
    pub(super) endpoint: Option<String>,
    /// Whether the route is one of Jina's gateway for the first version of DocArray.
    pub(super) is_v1: bool,
}

/// There is no such route.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Refusal {
    pub(super) status: StatusCode,
    pub(super) text: String,
}

/// The route of a request.
pub(super) fn route(
    method: &Method,
    path: &str,
    options: &HttpOptions,
    offered: &OfferedEndpoints,
) -> Result<Route, Refusal> {
    let call = |endpoint: Option<&str>, is_v1| {
        let endpoint = endpoint.map(str::to_owned);
        Ok(Route::Call(Call { endpoint, is_v1 }))
    };
    let exposed = options.exposed.iter();
    let mut exposed = exposed.filter(|(_, it)| it.path == path);
    let is_method = |it: &String| it == method.as_str();
    if let Some((endpoint, _)) = exposed.find(|(_, it)| it.methods.iter().any(is_method)) {
        return call(Some(endpoint), true);
    }
    if path == POST && *method == Method::POST && !options.no_debug_endpoints {
        return call(None, true);
    }
    if !options.no_crud_endpoints && CRUD.contains(&(method.clone(), path)) {
        return call(Some(path), true);
    }
    let is_endpoint = path.len() > 1 && offered.may_have(path);
    match *method {
        Method::GET if offered.is_generator(path) => Ok(Route::Stream(path.to_owned())),
        Method::POST if is_endpoint => call(Some(path), false),
        _ => Err(refusal(method, path, options, offered)),
    }
}

fn refusal(
    method: &Method,
    path: &str,
    options: &HttpOptions,
    offered: &OfferedEndpoints,
) -> Refusal {
    let is_crud = !options.no_crud_endpoints && CRUD.iter().any(|(_, it)| *it == path);
    let is_post = path == POST && !options.no_debug_endpoints;
    if is_crud || is_post || offered.names().contains(path) {
        return Refusal {
            status: StatusCode::METHOD_NOT_ALLOWED,
            text: format!("`{path}` does not take {method} requests"),
        };
    }
    let names: Vec<String> = offered.names().iter().map(|it| format!("`{it}`")).collect();
    let endpoints = match names.as_slice() {
        [] => String::new(),
        names => format!("; POST calls these endpoints: {}", names.join(", ")),
    };
    Refusal {
        status: StatusCode::NOT_FOUND,
        text: format!("there is no route for {method} `{path}`{endpoints}"),
    }
}

#[cfg(test)]
mod tests {
    use flow_proto::jina::EndpointsProto;
    use flow_spec::ExposedEndpoint;

    use super::*;

    fn offered(names: &[&str]) -> OfferedEndpoints {
        OfferedEndpoints::answered(vec![EndpointsProto {
            endpoints: names.iter().map(|&it| it.to_owned()).collect(),
            ..EndpointsProto::default()
        }])
    }

    #[track_caller]
    fn check(options: &HttpOptions, request: &str, expected: Result<(Option<&str>, bool), u16>) {
        let (method, path) = request.split_once(' ').unwrap();
        let method = method.parse().unwrap();
        let found = route(&method, path, options, &offered(&["/encode", "/search"]));
        let expected = expected.map(|(endpoint, is_v1)| {
            let endpoint = endpoint.map(str::to_owned);
            Route::Call(Call { endpoint, is_v1 })
        });
        assert_eq!(
            found.map_err(|it| it.status.as_u16()),
            expected,
            "{request}"
        );
    }

    #[test]
    fn jina_s_routes_come_before_endpoints() {
        let options = HttpOptions::default();
        check(&options, "POST /post", Ok((None, true)));
        check(&options, "POST /index", Ok((Some("/index"), true)));
        check(&options, "POST /search", Ok((Some("/search"), true)));
        check(&options, "PUT /update", Ok((Some("/update"), true)));
        check(&options, "DELETE /delete", Ok((Some("/delete"), true)));
        check(&options, "POST /encode", Ok((Some("/encode"), false)));
        check(&options, "POST /delete", Err(405));
        check(&options, "GET /encode", Err(405));
        check(&options, "POST /nothing", Err(404));
        check(&options, "POST /", Err(404));
    }

    #[test]
    fn routes_that_are_left_out_are_endpoints_again() {
        let options = HttpOptions {
            no_debug_endpoints: true,
            no_crud_endpoints: true,
            ..HttpOptions::default()
        };
        check(&options, "POST /post", Err(404));
        check(&options, "POST /index", Err(404));
        check(&options, "POST /search", Ok((Some("/search"), false)));
    }

    #[test]
    fn an_exposed_endpoint_has_its_own_path_and_methods() {
        let exposed = ExposedEndpoint {
            path: "/vectors".to_owned(),
            methods: vec!["PUT".to_owned()],
            summary: None,
        };
        let options = HttpOptions {
            exposed: [("/encode".to_owned(), exposed)].into_iter().collect(),
            ..HttpOptions::default()
        };
        check(&options, "PUT /vectors", Ok((Some("/encode"), true)));
        check(&options, "POST /vectors", Err(404));
    }

    #[test]
    fn a_refusal_names_the_endpoints() {
        let offered = offered(&["/encode", "_jina_dry_run_"]);
        let refused = route(&Method::POST, "/encod", &HttpOptions::default(), &offered);
        assert_eq!(
            refused.unwrap_err().text,
            "there is no route for POST `/encod`; POST calls these endpoints: `/encode`"
        );
    }
}
