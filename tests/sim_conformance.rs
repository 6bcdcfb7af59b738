//! The simulated cloud answers as the real services did: every request here was
//! recorded with its answer from Keystone, Neutron and Nova (2025.1), is sent to
//! the simulator that holds the same objects, and the two answers are compared:
//! status, headers, JSON keys and types, and the values that clients act on.

#![allow(clippy::unwrap_used, clippy::panic)] // A test's helpers may fail it.

mod sim_client;
mod sim_recorded;

use multinic_operator::sim::FrontEnd;
use sim_client::request;
use sim_recorded::Bed;

#[test]
fn a_project_scoped_login_gets_a_token_with_a_catalog() {
    Bed::new().check_all(&[
        "keystone-auth-ok",
        "keystone-auth-admin",
        "keystone-auth-by-project-id",
        "keystone-auth-by-domain-name",
        "keystone-auth-user-id",
    ]);
}

#[test]
fn an_application_credential_logs_in_without_a_scope() {
    Bed::new().check_all(&["keystone-auth-appcred", "keystone-auth-appcred-id"]);
}

#[test]
fn a_refused_application_credential_says_why_as_keystone_does() {
    Bed::new().check_all(&[
        "keystone-auth-appcred-bad-secret",
        "keystone-auth-appcred-unknown",
        "keystone-auth-appcred-scope",
        "keystone-auth-appcred-other-scope",
        "keystone-auth-appcred-no-user",
    ]);
}

#[test]
fn an_expired_application_credential_is_refused() {
    let bed = Bed::new();
    bed.cloud.set_next_id("e5bf7715e040435ebf05e6aa4ad2fc4b");
    let credential = bed.cloud.add_app_credential("6cf15e27b3a5495cadc0954bdc485479", "0764b6", "short");
    bed.cloud.expire_app_credential(&credential.id, std::time::Duration::ZERO);
    bed.check("keystone-auth-appcred-expired");
}

#[test]
fn every_refused_password_login_looks_the_same() {
    Bed::new().check_all(&[
        "keystone-auth-bad-password",
        "keystone-auth-unknown-user",
        "keystone-auth-unknown-project",
        "keystone-auth-project-without-role",
        "keystone-auth-domain-name-as-id",
    ]);
}

#[test]
fn a_disabled_project_refuses_logins() {
    let bed = Bed::new();
    bed.cloud.set_project_enabled("0764b6ee59a64e378881651220874c09", false);
    bed.check("keystone-auth-disabled-project");
}

#[test]
fn a_malformed_login_is_a_bad_request() {
    Bed::new().check_all(&[
        "keystone-auth-malformed",
        "keystone-auth-no-identity",
        "keystone-auth-user-no-domain",
        "keystone-auth-project-no-domain",
    ]);
}

#[test]
fn tokens_for_a_domain_or_the_system_have_a_catalog_without_compute_endpoints() {
    Bed::new().check_all(&["keystone-auth-domain-scope", "keystone-auth-system-scope"]);
}

#[test]
fn the_catalog_can_be_asked_for_again() {
    Bed::new().check("keystone-catalog");
}

#[test]
fn a_revoked_token_is_not_found_by_keystone() {
    Bed::new().check("keystone-revoked");
}

#[test]
fn an_unscoped_token_has_no_catalog() {
    Bed::new().check_all(&["keystone-auth-unscoped", "keystone-catalog-unscoped"]);
}

#[test]
fn keystone_refuses_missing_and_bad_tokens() {
    Bed::new().check_all(&["keystone-no-token", "keystone-bad-token"]);
}

#[test]
fn keystone_describes_its_versions() {
    Bed::new().check_all(&["keystone-root", "keystone-version", "keystone-auth-projects"]);
}

#[test]
fn a_keystone_url_without_its_version_is_a_page_that_is_not_found() {
    let bed = Bed::new();
    let url = bed.cloud.url(multinic_operator::sim::Service::Keystone);
    let reply = request(&url, "POST", "/auth/tokens", &[], "{}").unwrap();
    assert_eq!((reply.status, reply.header("content-type")), (404, Some("text/html; charset=utf-8")));
    let reply = request(&url, "POST", "//v3/auth/tokens", &[], "{}").unwrap();
    assert_eq!((reply.status, reply.header("location")), (308, Some(&*format!("{url}/v3/auth/tokens"))));
}

#[test]
fn ports_of_several_servers_come_in_one_list() {
    Bed::new().check_all(&[
        "neutron-ports-one-device",
        "neutron-ports-two-devices",
        "neutron-ports-repeat-same",
        "neutron-ports-device-upper",
        "neutron-ports-device-and-status",
        "neutron-ports-empty-device",
    ]);
}

#[test]
fn device_ids_joined_by_a_comma_match_nothing() {
    Bed::new().check_all(&["neutron-ports-comma-devices", "neutron-ports-bad-status"]);
}

#[test]
fn a_project_sees_its_own_ports_and_those_on_its_networks() {
    Bed::new().check_all(&[
        "neutron-ports-all",
        "neutron-ports-device-tenant",
        "neutron-ports-project-tenant",
        "neutron-ports-other-project",
        "neutron-ports-device-of-others",
        "neutron-port-of-others",
    ]);
}

#[test]
fn an_administrator_sees_every_port_with_its_binding() {
    Bed::new().check_all(&[
        "neutron-ports-admin-all",
        "neutron-ports-device-admin",
        "neutron-ports-project",
        "neutron-ports-tenant-id",
        "neutron-port-foreign-project",
    ]);
}

#[test]
fn odd_ports_are_served_as_they_are() {
    Bed::new().check_all(&[
        "neutron-port-no-ips",
        "neutron-port-two-ips",
        "neutron-port-dual",
        "neutron-port-upper-mac",
        "neutron-port-upper-device",
        "neutron-port-no-subnet",
        "neutron-port-admin-down",
    ]);
}

#[test]
fn tokens_without_a_project_get_an_empty_list() {
    Bed::new().check_all(&["neutron-unscoped-token", "neutron-system-token"]);
}

#[test]
fn neutron_refuses_missing_bad_and_revoked_tokens() {
    Bed::new().check_all(&["neutron-no-token", "neutron-bad-token", "neutron-revoked-new"]);
}

#[test]
fn fields_are_repeated_and_unknown_ones_ignored() {
    Bed::new().check_all(&[
        "neutron-ports-fields",
        "neutron-ports-fields-comma",
        "neutron-ports-fields-unknown",
        "neutron-ports-fields-nolimit",
    ]);
}

#[test]
fn unknown_filters_and_sort_keys_are_bad_requests() {
    Bed::new().check_all(&[
        "neutron-ports-unknown-filter",
        "neutron-ports-changed-since",
        "neutron-ports-created-at-filter",
        "neutron-ports-sort",
        "neutron-ports-limit-neg",
        "neutron-ports-limit-text",
    ]);
}

#[test]
fn ports_are_filtered_by_owner_and_by_subnet() {
    Bed::new().check_all(&["neutron-ports-owner", "neutron-ports-fixed-ips-filter"]);
}

#[test]
fn pages_link_to_the_next_and_the_last_one_does_not() {
    Bed::new().check_all(&[
        "neutron-ports-page-0",
        "neutron-ports-page-1",
        "neutron-ports-page-2",
        "neutron-ports-page-3",
        "neutron-ports-page-4",
        "neutron-ports-page-5",
        "neutron-ports-page-devices",
        "neutron-ports-limit-0",
    ]);
}

#[test]
fn a_full_last_page_still_links_to_an_empty_one() {
    Bed::new().check("neutron-ports-limit-exact");
}

#[test]
fn a_marker_that_is_gone_is_a_port_that_is_not_found() {
    Bed::new().check("neutron-ports-marker-gone");
}

#[test]
fn the_servers_own_page_limit_cuts_every_list() {
    let bed = Bed::new();
    bed.cloud.set_page_limit(Some(10));
    // Gone when this was recorded.
    for port in [
        "0910cbb0-9be9-44b6-a64e-9d02efb2a31f",
        "0bf48ff2-615d-46ce-8bc3-b45a472d5076",
        "318cfdc3-3441-4b7c-bce8-eb3d63037322",
        "58668f50-6dbe-48ae-b723-453e48030555",
    ] {
        assert!(bed.cloud.delete_port(port), "{port}");
    }
    bed.check_all(&["neutron-page-max-10", "neutron-page-max-10-limit-0", "neutron-page-max-10-limit-50"]);
}

#[test]
fn subnets_are_shown_by_id_and_those_of_others_are_not_found() {
    Bed::new().check_all(&[
        "neutron-subnet",
        "neutron-subnet-v6",
        "neutron-subnets-by-ids",
        "neutron-subnets-unknown",
        "neutron-subnet-not-a-uuid",
        "neutron-subnet-of-others",
    ]);
}

#[test]
fn networks_are_shown_by_id_and_those_of_others_are_not_found() {
    Bed::new().check_all(&[
        "neutron-network",
        "neutron-networks-by-ids",
        "neutron-networks-unknown",
        "neutron-network-of-others",
    ]);
}

#[test]
fn neutron_describes_its_versions_and_knows_no_other_paths() {
    Bed::new().check_all(&[
        "neutron-versions",
        "neutron-v2",
        "neutron-bad-version",
        "neutron-unknown-path",
        "neutron-ports-unknown",
    ]);
}

#[test]
fn a_server_is_shown_by_id_in_any_case_and_under_its_project() {
    Bed::new().check_all(&[
        "nova-server",
        "nova-server-upper",
        "nova-server-project-path",
        "nova-server-wrong-project-path",
    ]);
}

#[test]
fn a_server_that_is_unknown_deleted_or_of_others_is_not_found() {
    Bed::new().check_all(&[
        "nova-server-unknown",
        "nova-server-deleted",
        "nova-server-not-uuid",
        "nova-server-of-others",
    ]);
}

#[test]
fn servers_are_listed_newest_first_in_pages() {
    Bed::new().check_all(&[
        "nova-detail",
        "nova-detail-limit",
        "nova-detail-name",
        "nova-detail-marker-unknown",
    ]);
}

#[test]
fn novas_own_page_limit_cuts_every_list() {
    let bed = Bed::new();
    bed.cloud.set_server_page_limit(5);
    bed.check_all(&["nova-max-limit-5", "nova-max-limit-5-limit-50"]);
}

#[test]
fn a_tenants_server_filters_by_id_are_ignored() {
    Bed::new().check_all(&[
        "nova-detail-uuid-one-tenant",
        "nova-detail-uuid-repeat-tenant",
        "nova-detail-uuid-comma-tenant",
        "nova-detail-unknown-filter",
        "nova-detail-changes-since",
    ]);
}

#[test]
fn of_an_administrators_repeated_id_filter_the_last_counts() {
    Bed::new().check_all(&[
        "nova-detail-uuid-one-admin",
        "nova-detail-uuid-repeat-admin",
        "nova-detail-uuid-comma-admin",
    ]);
}

#[test]
fn only_administrators_list_the_servers_of_all_projects() {
    Bed::new().check_all(&[
        "nova-detail-all-tenants-admin",
        "nova-detail-all-tenants-project",
        "nova-detail-all-tenants-tenant",
        "nova-detail-project-without-all",
    ]);
}

#[test]
fn nova_refuses_tokens_that_are_bad_or_without_a_project() {
    Bed::new().check_all(&[
        "nova-no-token",
        "nova-bad-token",
        "nova-revoked-new",
        "nova-unscoped-token",
        "nova-unscoped-token-server",
        "nova-system-token",
    ]);
}

#[test]
fn nova_describes_its_versions_and_refuses_other_microversions() {
    Bed::new().check_all(&[
        "nova-versions",
        "nova-v21",
        "nova-microversion-too-new",
        "nova-microversion-malformed",
    ]);
}

/// So many filters in one request to the list of ports: status, or `None` for a
/// closed connection, and how many ports came.
fn long_request(bed: &Bed, filters: usize) -> (Option<u16>, usize) {
    let ids: Vec<String> =
        (0..filters).map(|n| format!("device_id=00000000-0000-4000-8000-{n:012}")).collect();
    match bed.get_ports(&ids.join("&")) {
        Ok(reply) if reply.status == 200 => (Some(200), reply.ids("ports").len()),
        Ok(reply) => (Some(reply.status), 0),
        Err(_) => (None, 0),
    }
}

#[test]
fn uwsgi_closes_long_requests_and_loses_the_filter_in_between() {
    let bed = Bed::new();
    for (buffer, honoured, lost) in [(4096, 38, Some(43..=76)), (16384, 168, None), (32768, 343, None)] {
        bed.cloud.set_front_end(FrontEnd::Uwsgi(buffer));
        assert_eq!(long_request(&bed, honoured), (Some(200), 0), "{buffer}: {honoured} filters are honoured");
        assert_eq!(long_request(&bed, honoured + 1), (None, 0), "{buffer}: one more closes the connection");
        if let Some(lost) = lost {
            assert_eq!(long_request(&bed, lost.start() - 1), (None, 0), "{buffer}: still closed");
            assert_eq!(long_request(&bed, *lost.start()), (Some(200), 17), "{buffer}: the filter is lost");
            assert_eq!(long_request(&bed, *lost.end()), (Some(200), 17), "{buffer}: the filter is lost");
            assert_eq!(long_request(&bed, lost.end() + 1), (None, 0), "{buffer}: closed for good");
        }
    }
}

#[test]
fn other_front_ends_refuse_long_requests_with_their_own_pages() {
    let bed = Bed::new();
    for (front_end, honoured, fixture) in [
        (FrontEnd::Eventlet, 173, "front-eventlet-neutron-server-classic-414"),
        (FrontEnd::Nginx, 173, "front-nginx-defaults-large-client-header-buffers-4-8k-uwsgi-http-s-414"),
        (FrontEnd::Apache, 173, "front-apache-mod-proxy-uwsgi-limitrequestline-8190-as-devstack-uws-414"),
        (FrontEnd::Haproxy, 317, "front-haproxy-defaults-tune-bufsize-16384-uwsgi-http-socket-65535-400"),
    ] {
        bed.cloud.set_front_end(front_end);
        assert_eq!(long_request(&bed, honoured), (Some(200), 0), "{front_end:?}");
        bed.check_long(fixture, honoured + 1);
    }
}
