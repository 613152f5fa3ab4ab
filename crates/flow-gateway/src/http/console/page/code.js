// A request as a command or a program.

const text = (value) => JSON.stringify(value);

/** In quotes for a shell. */
const quoted = (value) => "'" + value.replaceAll("'", "'\\''") + "'";

const curl = ({ origin, endpoint, texts, parameters, hasKey }) => {
  const body = text({ data: texts.map((it) => ({ text: it })), parameters });
  const key = hasKey ? " \\\n  -H \"authorization: Bearer $FLOW_API_KEY\"" : "";
  return `curl ${quoted(origin + endpoint)} \\\n  -H 'content-type: application/json'${key} \\\n  -d ${quoted(body)}`;
};

const pythonValue = (value) => {
  if (value === null) return "None";
  if (value === true) return "True";
  if (value === false) return "False";
  if (Array.isArray(value)) return `[${value.map(pythonValue).join(", ")}]`;
  if (typeof value === "object") return `{${Object.entries(value).map(([key, it]) => `${text(key)}: ${pythonValue(it)}`).join(", ")}}`;
  return text(value);
};

const python = ({ grpc, endpoint, texts, parameters, hasKey }) => {
  const used = Object.keys(parameters).length > 0 ? `, parameters=${pythonValue(parameters)}` : "";
  const key = hasKey ? ", api_key=os.environ[\"FLOW_API_KEY\"]" : "";
  return `${hasKey ? "import os\n\n" : ""}from flow_serve import Client, Document

client = Client(host="${grpc}"${key})
docs = client.post(${text(endpoint)}, [Document(text=it) for it in ${pythonValue(texts)}]${used})
for doc in docs:
    print(doc)`;
};

const rustText = (value) => text(value).replaceAll(/\\u([0-9a-f]{4})/g, "\\u{$1}");

const rust = ({ grpc, endpoint, texts, parameters, hasKey }) => {
  const connect = hasKey
    ? `
    let options = ConnectOptions {
        api_key: Some(ApiKey::new(&std::env::var("FLOW_API_KEY")?)?),
        ..ConnectOptions::default()
    };
    let client = Client::connect_with("${grpc}", options).await?;`
    : `
    let client = Client::connect("${grpc}").await?;`;
  const used = Object.keys(parameters).length > 0 ? `\n        .parameters(serde_json::from_str(${rustText(text(parameters))})?)` : "";
  return `use flow::{${hasKey ? "ApiKey, Client, ConnectOptions" : "Client"}, Document, stream};
use futures_util::TryStreamExt;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {${connect}
    let texts = stream::iter([${texts.map(rustText).join(", ")}].map(Document::from_text));
    let docs: Vec<Document> = client
        .post(${text(endpoint)}, texts)${used}
        .in_order()
        .documents()
        .try_collect()
        .await?;
    println!("{docs:?}");
    Ok(())
}`;
};

/** The languages by their names. */
export const LANGUAGES = { curl, Python: python, Rust: rust };
