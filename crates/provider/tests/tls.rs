//! Certificates: only those that the system trusts. What it trusts is set by the environment, which only a child process can have its own of.

mod common;

use common::*;
use graphrag_provider::*;
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ServerConfig, ServerConnection, Stream};
use std::io::{Read, Write};
use std::net::TcpListener;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

const ROOTS: &str = "SSL_CERT_FILE";
const URL: &str = "TEST_BASE_URL";

/// Answers each connection with a list of one model, and returns the URL and the CA's certificate.
fn server() -> (String, String) {
    let ca_key = KeyPair::generate().unwrap();
    let mut params = CertificateParams::new(vec![]).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let ca = params.self_signed(&ca_key).unwrap();
    let issuer = Issuer::new(params, ca_key);
    let key = KeyPair::generate().unwrap();
    let certificate = CertificateParams::new(vec!["localhost".into()])
        .unwrap()
        .signed_by(&key, &issuer)
        .unwrap();

    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap();
    let chain = vec![CertificateDer::from(certificate.der().to_vec())];
    let key = PrivateKeyDer::try_from(key.serialize_der()).unwrap();
    let config = Arc::new(config.with_no_client_auth().with_single_cert(chain, key).unwrap());
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("https://localhost:{}/v1", listener.local_addr().unwrap().port());
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut connection = ServerConnection::new(config.clone()).unwrap();
            let mut stream = stream.unwrap();
            let mut stream = Stream::new(&mut connection, &mut stream);
            // A client that does not trust the certificate goes away.
            if stream.read(&mut [0; 4096]).is_ok() {
                let body = r#"{"data": [{"id": "safe"}]}"#;
                let head = format!(
                    "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: {}\r\n\r\n",
                    body.len()
                );
                let _ = stream.write_all(format!("{head}{body}").as_bytes());
            }
        }
    });
    (url, ca.pem())
}

#[test]
#[ignore = "the child of the other test"]
fn child() {
    let mut settings = settings(Api::OpenAi, std::env::var(URL).unwrap());
    settings.timeout = Duration::from_secs(10);
    let mut client = Client::start(settings).unwrap();
    match one(&mut client, Request::Models) {
        Ok(outcome) => println!("models: {:?}", answered(outcome).reply),
        Err(stop) => println!("stop: {stop}"),
    }
}

fn run_child(url: &str, roots: Option<&str>) -> String {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["child", "--exact", "--ignored", "--nocapture"]);
    command.env(URL, url).env_remove(ROOTS).env_remove("SSL_CERT_DIR");
    if let Some(roots) = roots {
        command.env(ROOTS, roots);
    }
    let output = command.output().unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn a_certificate_is_good_if_the_system_trusts_its_issuer() {
    let (url, ca) = server();
    let output = run_child(&url, None);
    assert!(
        output.contains("stop: the provider is down: no secure connection could be made"),
        "{output}"
    );

    let file = std::env::temp_dir().join(format!("graphrag-provider-{}.pem", std::process::id()));
    std::fs::write(&file, ca).unwrap();
    let output = run_child(&url, file.to_str());
    let other_host = run_child(&url.replace("localhost", "127.0.0.1"), file.to_str());
    std::fs::remove_file(file).unwrap();
    assert!(output.contains(r#"models: Models(["safe"])"#), "{output}");
    assert!(
        other_host.contains("no secure connection could be made"),
        "{other_host}"
    );
}
