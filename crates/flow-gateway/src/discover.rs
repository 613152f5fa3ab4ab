//! What a flow offers: the endpoints of all its executors together.

use std::collections::BTreeSet;
use std::time::Instant;

use flow_core::{Code, Deadline, Failure};
use flow_net::Pool;
use flow_proto::jina::EndpointsProto;
use flow_spec::NodePlan;
use futures_util::future::try_join_all;

use crate::core::Core;

/// Asks one replica of each node.
pub(crate) async fn endpoints(core: &Core, deadline: Deadline) -> Result<EndpointsProto, Failure> {
    let asked = core.pools().map(|(node, pool)| ask(node, pool, deadline));
    let mut all = EndpointsProto::default();
    let (mut endpoints, mut write_endpoints) = (BTreeSet::new(), BTreeSet::new());
    for offered in try_join_all(asked).await? {
        endpoints.extend(offered.endpoints);
        write_endpoints.extend(offered.write_endpoints);
        if let Some(schemas) = offered.schemas {
            all.schemas
                .get_or_insert_default()
                .fields
                .extend(schemas.fields);
        }
    }
    all.endpoints = endpoints.into_iter().collect();
    all.write_endpoints = write_endpoints.into_iter().collect();
    Ok(all)
}

async fn ask(node: &NodePlan, pool: &Pool, deadline: Deadline) -> Result<EndpointsProto, Failure> {
    let name = node.name.as_str();
    let lease = pool
        .lease(Instant::now())
        .map_err(|none| Failure::new(Code::Unavailable, none.to_string()).at(name))?;
    lease
        .replica()
        .endpoints(deadline)
        .await
        .map_err(|failure| failure.at(name))
}
