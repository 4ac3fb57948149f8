//! Requests byte for byte: who is answered, and with what.

use serde_json::{Value, json};

use crate::{Served, entries};

/// Requests that write files or start work.
const ACTIONS: [&str; 6] =
    ["/api/plan", "/api/limits", "/api/simulate", "/api/stop", "/api/save", "/api/export"];
const SAVES: &str = "{\"name\": \"new.toml\", \"folder\": \"new\"}";

#[test]
fn a_request_without_the_token_of_our_page_starts_and_writes_nothing() {
    let served = Served::new("");
    let host = format!("Host: {}\r\n", served.address);
    let token = served.token();
    let other = Served::new("").token();
    for path in ACTIONS {
        for wrong in [
            String::new(),
            "X-Proofload-Token: \r\n".to_owned(),
            format!("X-Proofload-Token: {other}\r\n"),
            format!("X-Proofload-Token: {}\r\n", &token[1..]),
            format!("X-Proofload-Token: {token}\r\nX-Proofload-Token: {token}\r\n"),
            format!("Cookie: X-Proofload-Token={token}\r\n"),
        ] {
            let (status, text) = served.post_with(path, &(host.clone() + &wrong), SAVES);
            assert_eq!(status, 403, "{path} {wrong}: {text}");
        }
    }
    assert_eq!(entries(served.folder.path()), ["small.toml"]);
    assert_eq!(served.get("/api/simulate").1, "null");
}

#[test]
fn a_request_for_another_host_or_from_another_origin_is_refused() {
    let served = Served::new("");
    let (own, port, token) = (served.address.to_string(), served.address.port(), served.token());
    let key = format!("X-Proofload-Token: {token}\r\n");
    let hosts = [
        "evil.example".to_owned(),
        format!("evil.example:{port}"),
        format!("127.0.0.1.evil.example:{port}"),
        "127.0.0.1".to_owned(),
        "127.0.0.1:1".to_owned(),
        format!("127.0.0.2:{port}"),
        format!("{own}@evil.example"),
        String::new(),
    ];
    for host in hosts {
        for path in ["/", "/api/form", "/desk.js"] {
            let head = format!("GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
            let (status, text) = served.raw(&head, b"");
            assert!(status == 403 && !text.contains(&token), "{path} {host}: {status} {text}");
        }
        let (status, text) = served.post_with("/api/save", &format!("Host: {host}\r\n{key}"), SAVES);
        assert_eq!(status, 403, "{host}: {text}");
    }
    let twice = format!("Host: {own}\r\nHost: evil.example\r\n{key}");
    assert!([400, 403].contains(&served.post_with("/api/save", &twice, SAVES).0));
    for origin in
        ["null", "http://evil.example", "https://evil.example:1", "", &format!("https://{own}"), &own]
    {
        let headers = format!("Host: {own}\r\nOrigin: {origin}\r\n{key}");
        assert_eq!(served.post_with("/api/save", &headers, SAVES).0, 403, "{origin:?}");
    }
    assert_eq!(entries(served.folder.path()), ["small.toml"]);
    let headers = format!("Host: {own}\r\nOrigin: http://{own}\r\n{key}");
    assert_eq!(
        served.post_with("/api/save", &headers, "{\"name\": \"new.toml\"}").0,
        200,
        "our own page may"
    );
    assert_eq!(entries(served.folder.path()), ["new.toml", "small.toml"]);
}

#[test]
fn bad_requests_get_a_reason_and_do_nothing() {
    let served = Served::new("");
    for (path, body, expected) in [
        ("/api/plan", "{", 400),
        ("/api/plan", "[]x", 400),
        ("/api/plan", "{\"unknown\": 1}", 400),
        ("/api/plan", "{\"edits\": [{\"path\": \"a\"}]}", 400),
        ("/api/plan", "{\"edits\": [{\"path\": \"a\", \"value\": 1, \"more\": 1}]}", 400),
        ("/api/save", "{\"name\": 1}", 400),
        ("/api/save", "{}", 400),
        ("/api/save", "{\"name\": \"../new.toml\"}", 400),
        ("/api/export", "{\"folder\": \"a/b\"}", 400),
        ("/api/nothing", "{}", 404),
        ("/", "{}", 404),
    ] {
        let (status, answer) = served.post(path, body);
        assert_eq!(status, expected, "{path} {body}: {answer}");
        assert!(answer["error"].as_str().is_some_and(|why| !why.is_empty()), "{path} {body}: {answer}");
    }
    let headers = format!("Host: {}\r\nX-Proofload-Token: {}\r\n", served.address, served.token());
    let large = "x".repeat((1 << 20) + 1);
    assert_eq!(served.post_with("/api/plan", &headers, &large).0, 413);
    let head = format!("PUT /api/plan HTTP/1.1\r\n{headers}Connection: close\r\nContent-Length: 0\r\n\r\n");
    assert_eq!(served.raw(&head, b"").0, 405);
    for path in ["/nothing", "/api/plan", "/api", "/small.toml", "/../small.toml", "/%2e%2e/small.toml"] {
        assert_eq!(served.get(path).0, 404, "{path}");
    }
    assert_eq!(entries(served.folder.path()), ["small.toml"]);
}

#[test]
fn a_plan_of_the_page_is_that_of_the_command_and_mistakes_name_their_field() {
    let served = Served::new("");
    let (status, form) = served.get("/api/form");
    let form: Value = serde_json::from_str(&form).expect("JSON");
    assert_eq!((status, &form["file"]), (200, &json!("small.toml")));
    let edits = json!([{ "path": "profile.mailboxes", "value": 300 }]);
    let (_, answer) = served.post("/api/plan", &json!({ "edits": edits, "lost": ["mbx1"] }).to_string());
    let text = std::fs::read_to_string(served.file()).expect("readable");
    let changed = text.replacen("mailboxes = 400", "mailboxes = 300", 1);
    let solution = solution::Solution::parse(&changed, "small.toml").expect("it is valid");
    let planned = plan::plan(&solution, &[]).expect("planned");
    let expected: Value = serde_json::from_str(&planned.json()).expect("JSON");
    assert_eq!(answer["plan"], expected);
    assert_eq!(answer["failure"]["moves"][0]["to"], "mbx2", "{}", answer["failure"]);
    let (_, limits) = served.post("/api/limits", &json!({ "edits": edits }).to_string());
    assert_eq!(limits["mailboxes_wanted"], 300);
    for path in ["profile.mailboxen", "nothing.at.all", "profile.mailboxes"] {
        let edits = json!([{ "path": path, "value": "many" }]);
        for action in ["/api/plan", "/api/limits", "/api/simulate", "/api/save", "/api/export"] {
            let wish = json!({ "edits": edits, "name": "new.toml", "folder": "new" }).to_string();
            let wish = if action == "/api/plan" { json!({ "edits": edits }).to_string() } else { wish };
            let (status, answer) = served.post(action, &wish);
            assert_eq!((status, &answer["errors"][0]["path"]), (200, &json!(path)), "{action}: {answer}");
        }
    }
    let (_, answer) = served.post("/api/plan", "{\"lost\": [\"mbx9\"]}");
    assert!(answer["errors"][0]["message"].as_str().is_some_and(|said| said.contains("mbx9")), "{answer}");
    assert_eq!(entries(served.folder.path()), ["small.toml"]);
    assert_eq!(
        std::fs::read_to_string(served.file()).expect("readable"),
        text,
        "the open file is never written"
    );
}

#[test]
fn a_saved_design_keeps_comments_and_an_export_builds_the_plan_of_the_page() {
    let served = Served::new("");
    let edits = json!([{ "path": "profile.mailboxes", "value": 300 }]);
    let (status, answer) =
        served.post("/api/save", &json!({ "edits": edits, "name": "new.toml" }).to_string());
    assert_eq!(status, 200, "{answer}");
    let text = std::fs::read_to_string(served.file()).expect("readable");
    let saved = std::fs::read_to_string(served.path("new.toml")).expect("it was written");
    assert_eq!(
        saved,
        text.replacen("mailboxes = 400", "mailboxes = 300", 1),
        "nothing but the value differs"
    );
    let (status, answer) =
        served.post("/api/export", &json!({ "edits": edits, "folder": "new" }).to_string());
    assert_eq!(status, 200, "{answer}");
    let solution = solution::Solution::parse(&saved, "new.toml").expect("it is valid");
    let planned = plan::plan(&solution, &[]).expect("planned");
    for (name, text) in plan::export(&solution, &planned).expect("exported") {
        assert_eq!(
            std::fs::read_to_string(served.path("new").join(name)).ok().as_ref(),
            Some(&text),
            "{name}"
        );
    }
    for (path, wish) in [
        ("/api/save", json!({ "name": "new.toml" })),
        ("/api/save", json!({ "name": "small.toml" })),
        ("/api/export", json!({ "folder": "new" })),
    ] {
        let (status, answer) = served.post(path, &wish.to_string());
        assert!(
            status == 409 && answer["error"].as_str().is_some_and(|why| why.contains("exists")),
            "{answer}"
        );
    }
    assert_eq!(std::fs::read_to_string(served.file()).expect("readable"), text);
}

#[test]
fn a_second_simulation_is_refused_until_the_first_is_stopped() {
    let served = Served::new("");
    let (status, answer) = served.post("/api/simulate", "{}");
    assert_eq!((status, &answer["state"]), (200, &json!("running")), "{answer}");
    let (status, answer) = served.post("/api/simulate", "{}");
    assert!(status == 409 && answer["error"].as_str().is_some_and(|why| why.contains("stop")), "{answer}");
    assert_eq!(served.post("/api/stop", "{}").0, 200);
    let stopped = || served.get("/api/simulate").1.contains("\"state\":\"stopped\"");
    while !stopped() {
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    assert_eq!(served.post("/api/simulate", "{}").0, 200);
}
