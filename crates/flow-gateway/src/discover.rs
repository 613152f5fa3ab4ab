//! What a flow offers: the endpoints of all its executors together.

use std::collections::BTreeSet;

use flow_core::{Deadline, Failure};
use flow_proto::jina::EndpointsProto;
use futures_util::future::try_join_all;

use crate::attend::ask;
use crate::core::Core;

/// Asks one replica of each node.
pub(crate) async fn endpoints(core: &Core, deadline: Deadline) -> Result<EndpointsProto, Failure> {
    let asked = core.nodes().map(|(plan, node)| ask(plan, node, deadline));
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
