//! The Open Inference Protocol over gRPC: a tensor of texts in, a tensor of vectors out, as over HTTP.

mod tensors;

use std::pin::Pin;

use flow_core::{CallOptions, ModelKind};
use flow_net::ByteBudget;
use flow_net::grpc::inference::grpc_inference_service_server::GrpcInferenceService;
use flow_net::status::from_failure;
use flow_proto::inference::model_metadata_response::TensorMetadata;
use flow_proto::inference::{
    ModelInferRequest, ModelInferResponse, ModelMetadataRequest, ModelMetadataResponse,
    ModelReadyRequest, ModelReadyResponse, ModelStreamInferResponse, ServerLiveRequest,
    ServerLiveResponse, ServerMetadataRequest, ServerMetadataResponse, ServerReadyRequest,
    ServerReadyResponse,
};
use futures_util::{Stream, StreamExt};
use prost::Message;
use tonic::{Request, Response, Status, Streaming};

use self::tensors::{FLOATS, TEXTS, Texts};
use super::call::{budget, options, return_id};
use crate::auth::{self, Identity};
use crate::http::api_error::{ApiError, ErrorKind};
use crate::http::embeddings::{EmbedRequest, embed};
use crate::http::model_call::inputs_max;
use crate::http::models::ServedModels;
use crate::http::open_inference::{INPUT, OUTPUT, VERSION, check_version};
use crate::service::GatewayService;

/// The methods, as they are named in logs and traces.
const INFER: &str = "/inference.GRPCInferenceService/ModelInfer";
const STREAM: &str = "/inference.GRPCInferenceService/ModelStreamInfer";

/// The protocol's service, answered by a gateway.
#[derive(Debug, Clone)]
pub(crate) struct InferenceService(pub(crate) GatewayService);

impl InferenceService {
    /// Encodes the texts of a request.
    async fn infer(
        &self,
        request: ModelInferRequest,
        options: &CallOptions,
    ) -> Result<ModelInferResponse, ApiError> {
        let (name, id) = (request.model_name.clone(), request.id.clone());
        let version = request.model_version.clone();
        let (heavy, len) = (self.0.heavy(), request.encoded_len());
        let max = inputs_max(&self.0);
        let read = move || Ok(Texts::read(request, max));
        let Texts { texts, is_raw } = heavy.run(len, read).await??;
        let models = ServedModels::of(&self.0.snapshot()).await;
        let model = models.find(ModelKind::Embedding, Some(&name))?;
        check_version(&name, &version)?;
        let wanted = EmbedRequest {
            texts,
            field: "inputs",
            ..EmbedRequest::default()
        };
        let embeddings = embed(&self.0, &models, model, wanted, options).await?;
        let vectors = embeddings.vectors;
        let len = vectors.iter().map(|it| size_of_val(it.as_slice())).sum();
        let write = move || Ok(tensors::reply((name, id), &vectors, is_raw));
        Ok(heavy.run(len, write).await?)
    }

    /// The next reply of a stream. A failure is a reply, too, so that others follow it.
    async fn next(
        &self,
        request: Result<ModelInferRequest, Status>,
        of_stream: OfStream,
    ) -> Result<ModelStreamInferResponse, Status> {
        let request = request?;
        let id = request.id.clone();
        let _held = of_stream.hold(&request);
        let answer = async {
            if let Some(identity) = &of_stream.identity {
                identity.wait_for_turn().await?;
            }
            self.infer(request, &of_stream.options).await
        };
        let answer = auth::on_behalf_of(of_stream.identity.clone(), answer).await;
        Ok(match answer {
            Ok(reply) => ModelStreamInferResponse {
                infer_response: Some(reply),
                ..ModelStreamInferResponse::default()
            },
            Err(error) => ModelStreamInferResponse {
                error_message: error.message,
                infer_response: Some(ModelInferResponse {
                    id,
                    ..ModelInferResponse::default()
                }),
            },
        })
    }

    async fn describe(&self, name: &str, version: &str) -> Result<ModelMetadataResponse, ApiError> {
        let models = ServedModels::of(&self.0.snapshot()).await;
        let model = models.find(ModelKind::Embedding, Some(name))?;
        check_version(name, version)?;
        let width = model.info.as_ref().map(|info| info.dimensions);
        let width = width.and_then(|it| i64::try_from(it).ok()).unwrap_or(-1);
        let tensor = |name: &str, datatype: &str, shape| TensorMetadata {
            name: name.to_owned(),
            datatype: datatype.to_owned(),
            shape,
        };
        Ok(ModelMetadataResponse {
            name: model.id.clone(),
            versions: vec![VERSION.to_owned()],
            platform: "flow".to_owned(),
            inputs: vec![tensor(INPUT, TEXTS, vec![-1])],
            outputs: vec![tensor(OUTPUT, FLOATS, vec![-1, width])],
        })
    }
}

/// What the requests of a stream have in common.
#[derive(Clone)]
struct OfStream {
    options: CallOptions,
    identity: Option<Identity>,
    /// The part of the byte budget that the stream has.
    budget: Option<ByteBudget>,
}

impl OfStream {
    /// Counts a request in the budget, until the result is dropped.
    fn hold(&self, request: &ModelInferRequest) -> Option<flow_net::HeldBytes> {
        let budget = self.budget.as_ref();
        budget.map(|budget| budget.hold(request.encoded_len()))
    }
}

/// An error as the status of a call.
fn status(error: ApiError) -> Status {
    match error.kind {
        ErrorKind::NoModel | ErrorKind::NoRoute => Status::not_found(error.message),
        _ => from_failure(&error.into_failure()),
    }
}

#[tonic::async_trait]
impl GrpcInferenceService for InferenceService {
    type ModelStreamInferStream =
        Pin<Box<dyn Stream<Item = Result<ModelStreamInferResponse, Status>> + Send>>;

    async fn server_live(
        &self,
        _: Request<ServerLiveRequest>,
    ) -> Result<Response<ServerLiveResponse>, Status> {
        Ok(Response::new(ServerLiveResponse { live: true }))
    }

    async fn server_ready(
        &self,
        _: Request<ServerReadyRequest>,
    ) -> Result<Response<ServerReadyResponse>, Status> {
        let ready = self.0.is_ready();
        Ok(Response::new(ServerReadyResponse { ready }))
    }

    async fn model_ready(
        &self,
        request: Request<ModelReadyRequest>,
    ) -> Result<Response<ModelReadyResponse>, Status> {
        let request = request.into_inner();
        let models = ServedModels::of(&self.0.snapshot()).await;
        models
            .find(ModelKind::Embedding, Some(&request.name))
            .map_err(status)?;
        check_version(&request.name, &request.version).map_err(status)?;
        let ready = self.0.is_ready();
        Ok(Response::new(ModelReadyResponse { ready }))
    }

    async fn server_metadata(
        &self,
        _: Request<ServerMetadataRequest>,
    ) -> Result<Response<ServerMetadataResponse>, Status> {
        Ok(Response::new(ServerMetadataResponse {
            name: "flow".to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            extensions: Vec::new(),
        }))
    }

    async fn model_metadata(
        &self,
        request: Request<ModelMetadataRequest>,
    ) -> Result<Response<ModelMetadataResponse>, Status> {
        let request = request.into_inner();
        let described = self.describe(&request.name, &request.version).await;
        described.map(Response::new).map_err(status)
    }

    async fn model_infer(
        &self,
        request: Request<ModelInferRequest>,
    ) -> Result<Response<ModelInferResponse>, Status> {
        let options = options(&request, INFER)?;
        let budget = budget(&request);
        let request = request.into_inner();
        let _held = budget.map(|budget| budget.hold(request.encoded_len()));
        let id = options.request_id.as_ref();
        match self.infer(request, &options).await {
            Ok(reply) => {
                let mut response = Response::new(reply);
                return_id(response.metadata_mut(), id);
                Ok(response)
            }
            Err(error) => {
                let mut status = status(error);
                return_id(status.metadata_mut(), id);
                Err(status)
            }
        }
    }

    async fn model_stream_infer(
        &self,
        request: Request<Streaming<ModelInferRequest>>,
    ) -> Result<Response<Self::ModelStreamInferStream>, Status> {
        let of_stream = OfStream {
            options: options(&request, STREAM)?,
            identity: auth::current(),
            budget: budget(&request).map(|connection| connection.for_stream()),
        };
        let id = of_stream.options.request_id.clone();
        let service = self.clone();
        let draining = self.0.draining();
        // What was read before the drain is answered.
        let requests = request.into_inner();
        let requests = requests.take_until(async move { draining.begun().await });
        let replies = requests.then(move |request| {
            let (service, of_stream) = (service.clone(), of_stream.clone());
            async move { service.next(request, of_stream).await }
        });
        let mut response: Response<Self::ModelStreamInferStream> = Response::new(Box::pin(replies));
        return_id(response.metadata_mut(), id.as_ref());
        Ok(response)
    }
}
