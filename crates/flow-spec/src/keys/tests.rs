use super::mappings::{MAPPINGS, home_of};
use super::*;

#[test]
fn no_table_has_two_keys_of_one_name() {
    for table in MAPPINGS.iter().flat_map(|(_, mapping)| mapping.tables) {
        let names: Vec<&str> = table.iter().flat_map(|key| key.names()).collect();
        for (number, name) in names.iter().enumerate() {
            assert!(!names[..number].contains(name), "{name}");
        }
    }
}

#[track_caller]
fn check_known(keys: &Mapping, names: &str) {
    let unknown: Vec<_> = names
        .split_whitespace()
        .filter(|it| keys.find(it).is_none())
        .collect();
    assert_eq!(unknown, [""; 0], "unknown as {}", keys.what);
}

#[test]
fn every_key_of_a_jina_flow_is_known() {
    check_known(
        &TOP_MAPPING,
        "jtype version with gateway executors deployments pods jcloud",
    );
    check_known(
        &WITH_MAPPING,
        "name workspace log_config quiet quiet_error workspace_id suppress_root_logging uses reload \
         env inspect",
    );
}

#[test]
fn every_option_of_a_jina_executor_is_known() {
    let options = "name workspace workspace_id log_config quiet quiet_error extra_search_paths \
        timeout_ctrl k8s_namespace polling shards parallel replicas native uses uses_with uses_metas \
        uses_requests uses_dynamic_batching py_modules output_array_type exit_on_exceptions no_reduce \
        disable_reduce allow_concurrent grpc_server_options grpc_channel_options raft_configuration \
        entrypoint docker_kwargs volumes gpus disable_auto_volume force_network_mode host port ports \
        protocol protocols provider provider_endpoint runtime_cls timeout_ready env env_from_secret \
        image_pull_secrets floating reload install_requirements force_update force prefer_platform \
        monitoring port_monitoring retries tracing traces_exporter_host traces_exporter_port metrics \
        metrics_exporter_host metrics_exporter_port stateful peer_ports compression uses_before \
        uses_after uses_before_address uses_after_address connection_list timeout_send when external \
        grpc_metadata tls title description cors uvicorn_kwargs ssl_certfile ssl_keyfile needs method \
        shard_id replica_id pod_role deployment_role noblock_on_start";
    check_known(&ENTRY_MAPPING, options);
    let inherited = options.replace(" needs method", "");
    check_known(&WITH_MAPPING, &inherited);
}

#[test]
fn every_option_of_a_jina_gateway_is_known() {
    let options = "name workspace log_config quiet quiet_error extra_search_paths timeout_ctrl \
        k8s_namespace entrypoint docker_kwargs prefetch title description cors uvicorn_kwargs \
        ssl_certfile ssl_keyfile no_debug_endpoints no_crud_endpoints expose_endpoints \
        expose_graphql_endpoint host proxy uses uses_with py_modules replicas grpc_server_options \
        grpc_channel_options graph_description graph_conditions deployments_addresses \
        deployments_metadata deployments_no_reduce compression timeout_send timeout_ready env \
        env_from_secret image_pull_secrets floating reload port ports port_expose port_in protocol \
        protocols provider monitoring port_monitoring retries tracing traces_exporter_host \
        traces_exporter_port metrics metrics_exporter_host metrics_exporter_port stateful peer_ports";
    check_known(&GATEWAY_MAPPING, options);
    check_known(&WITH_MAPPING, options);
}

#[test]
fn every_option_of_jina_2_is_known() {
    check_known(
        &ENTRY_MAPPING,
        "parallel scheduling port_in port_out port_ctrl socket_in socket_out host_in host_out \
         pull_latest on_error_strategy memory_hwm runtime_backend daemon peas_hosts upload_files \
         static_routing_table compress compress_min_bytes compress_min_ratio grpc_data_requests",
    );
}

#[test]
fn every_key_of_an_executor_s_config_is_known() {
    check_known(
        &CONFIG_MAPPING,
        "jtype with metas py_modules requests dynamic_batching workspace",
    );
}

#[test]
fn a_misplaced_key_names_its_mapping() {
    assert_eq!(home_of("needs"), Some("an entry of `executors`"));
    assert_eq!(home_of("prefetch"), Some("`gateway`"));
    assert_eq!(home_of("executors"), Some("the top of the file"));
    assert_eq!(home_of("nonsense"), None);
}
