//! Access rules over restarts, and what an operator's settings do with them. What each request needs is
//! judged by `tests/clients/aclrules.py`.

use crate::groups::coordinator;
use crate::support::{Broker, Client, refused};
use millstream::wire::ErrorCode;
use millstream::wire::messages::create_acls::AclCreation;
use millstream::wire::messages::*;
use std::time::{Duration, Instant};

const CLASS: &str = "authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer";
const OPEN: &str = "allow.everyone.if.no.acl.found=true";
const SUPER: &str = "super.users=User:admin;User:ANONYMOUS";

const READ: i8 = 3;
const WRITE: i8 = 4;
const DESCRIBE: i8 = 8;
const DENY: i8 = 2;
const ALLOW: i8 = 3;

fn rule(resource_name: &str, operation: i8, permission_type: i8) -> AclCreation<'_> {
    AclCreation {
        resource_type: 2,
        resource_name,
        resource_pattern_type: 3,
        principal: "User:ANONYMOUS",
        host: "*",
        operation,
        permission_type,
    }
}

fn create(client: &mut Client, creations: Vec<AclCreation<'_>>) -> Vec<i16> {
    let body = client.call(3, &CreateAclsRequest { creations });
    let response: CreateAclsResponse<'_> = body.decode(3);
    response.results.iter().map(|result| result.error_code).collect()
}

/// How many rules there are, or why that is not told.
fn count(client: &mut Client) -> Result<usize, i16> {
    let any = DescribeAclsRequest {
        resource_type_filter: 1,
        resource_name_filter: None,
        pattern_type_filter: 1,
        principal_filter: None,
        host_filter: None,
        operation: 1,
        permission_type: 1,
    };
    let body = client.call(3, &any);
    let response: DescribeAclsResponse<'_> = body.decode(3);
    match response.error_code {
        0 => Ok(response.resources.iter().map(|resource| resource.acls.len()).sum()),
        code => Err(code),
    }
}

#[test]
fn rules_are_obeyed_at_once_and_survive_a_kill() {
    let refused = ErrorCode::TopicAuthorizationFailed.number();
    let mut broker = Broker::with(&["--set", CLASS, "--set", OPEN]);
    let mut client = broker.connect();
    client.create("t", 1);
    assert_eq!(client.produce("t", 0, &["a"]).0, 0);
    let rules = vec![rule("t", WRITE, DENY), rule("t", READ, ALLOW), rule("t", READ, ALLOW)];
    assert_eq!(create(&mut client, rules), [0, 0, 0]);
    for _ in 0..2 {
        assert_eq!(client.produce("t", 0, &["b"]).0, refused);
        assert_eq!(client.fetch("t", 0, 0).0, 0);
        assert_eq!(count(&mut client), Ok(2));
        broker.kill();
        broker.start_again();
        client = broker.connect();
    }
    let filter = delete_acls::DeleteAclsFilter {
        resource_type_filter: 2,
        resource_name_filter: Some("t"),
        pattern_type_filter: 3,
        principal_filter: None,
        host_filter: None,
        operation: 1,
        permission_type: DENY,
    };
    let body = client.call(3, &DeleteAclsRequest { filters: vec![filter] });
    let response: DeleteAclsResponse<'_> = body.decode(3);
    assert_eq!(response.filter_results[0].matching_acls.len(), 1);
    // What denied it is gone, and no other rule allows it.
    assert_eq!(client.produce("t", 0, &["b"]).0, refused);
    broker.kill();
    broker.start_again();
    let mut client = broker.connect();
    assert_eq!(count(&mut client), Ok(1));
    assert_eq!(create(&mut client, vec![rule("t", WRITE, ALLOW)]), [0]);
    assert_eq!(client.produce("t", 0, &["b"]), (0, 1));
    assert!(broker.logs("principal=User:ANONYMOUS host=127.0.0.1 operation=Write Topic=t"));
}

#[test]
fn super_users_are_above_the_rules_and_without_an_authorizer_there_are_none() {
    let mut broker = Broker::with(&["--set", CLASS, "--set", SUPER]);
    let mut client = broker.connect();
    client.create("t", 1);
    assert_eq!(create(&mut client, vec![rule("t", WRITE, DENY)]), [0]);
    assert_eq!(client.produce("t", 0, &["a"]).0, 0);
    broker.stop();
    broker.give(&["--set", CLASS]);
    broker.start_again();
    let mut client = broker.connect();
    let denied = ErrorCode::TopicAuthorizationFailed.number();
    assert_eq!(client.produce("t", 0, &["a"]).0, denied);
    assert_eq!(client.fetch("t", 0, 0).0, denied);
    assert_eq!(count(&mut client), Err(ErrorCode::ClusterAuthorizationFailed.number()));
    assert!(broker.logs("nobody may do anything"));
    broker.stop();
    broker.give(&[]);
    broker.start_again();
    let mut client = broker.connect();
    assert_eq!(client.produce("t", 0, &["a"]).0, 0);
    assert_eq!(count(&mut client), Err(ErrorCode::SecurityDisabled.number()));
    assert!(broker.logs("access rules have no effect"));
}

#[test]
fn authorizer_that_is_not_there_and_super_users_that_are_none_refuse_the_start() {
    let data = tempfile::tempdir().unwrap();
    for (settings, part) in [
        (&["--set", "authorizer.class.name=org.example.Mine"][..], "org.example.Mine"),
        (&["--set", CLASS, "--set", "super.users=alice"], "User:NAME"),
    ] {
        let (status, said) = refused(data.path(), settings);
        assert!(!status.success() && said.contains(part), "{said}");
    }
}

/// A pattern finds what the member may describe, and a rule that comes later opens the rest.
#[test]
fn member_that_asks_by_a_pattern_gets_what_it_may_describe() {
    let broker = Broker::with(&["--set", CLASS, "--set", OPEN]);
    let mut client = broker.connect();
    coordinator(&mut client, "g");
    client.create("p-open", 1);
    client.create("p-closed", 1);
    assert_eq!(create(&mut client, vec![rule("p-closed", DESCRIBE, DENY)]), [0]);
    let mut epoch = 0;
    let mut beat = |client: &mut Client| {
        let request = ConsumerGroupHeartbeatRequest {
            group_id: "g",
            member_id: "m",
            member_epoch: epoch,
            rebalance_timeout_ms: 60_000,
            subscribed_topic_regex: Some("p-.*"),
            topic_partitions: (epoch == 0).then(Vec::new),
            ..Default::default()
        };
        let body = client.call(1, &request);
        let response: ConsumerGroupHeartbeatResponse<'_> = body.decode(1);
        assert_eq!(response.error_code, 0, "{:?}", response.error_message);
        epoch = response.member_epoch;
        response.assignment.map(|assignment| assignment.topic_partitions.len())
    };
    let begun = Instant::now();
    let mut assigned = None;
    while assigned.is_none_or(|topics| topics == 0) {
        assigned = beat(&mut client).or(assigned);
        assert!(begun.elapsed() < Duration::from_secs(20), "nothing was assigned");
        std::thread::sleep(Duration::from_millis(20));
    }
    assert_eq!(assigned, Some(1));
    let request = ConsumerGroupHeartbeatRequest {
        group_id: "g2",
        member_id: "m",
        rebalance_timeout_ms: 60_000,
        subscribed_topic_names: Some(vec!["p-open", "p-closed"]),
        topic_partitions: Some(Vec::new()),
        ..Default::default()
    };
    let body = client.call(1, &request);
    let response: ConsumerGroupHeartbeatResponse<'_> = body.decode(1);
    assert_eq!(response.error_code, ErrorCode::TopicAuthorizationFailed.number());
}
