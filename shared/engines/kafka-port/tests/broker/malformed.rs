//! Malformed requests may end the connection, but not the broker.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use triad_broker::{Broker, BrokerConfig, BrokerHandle};

const PATIENCE: Duration = Duration::from_secs(20);

fn broker() -> BrokerHandle {
    Broker::start(BrokerConfig {
        max_connections: 4,
        ..BrokerConfig::default()
    })
    .expect("a broker")
}

fn connect(addr: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(addr).expect("a connection");
    stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    stream
}

/// A request with this API key, version and body, without a client id.
fn request(key: i16, version: i16, body: &[u8]) -> Vec<u8> {
    let mut frame = Vec::new();
    frame.extend_from_slice(&key.to_be_bytes());
    frame.extend_from_slice(&version.to_be_bytes());
    frame.extend_from_slice(&7_i32.to_be_bytes());
    frame.extend_from_slice(&(-1_i16).to_be_bytes());
    frame.extend_from_slice(body);
    let mut whole = i32::try_from(frame.len())
        .expect("small")
        .to_be_bytes()
        .to_vec();
    whole.extend_from_slice(&frame);
    whole
}

/// The next response without its length prefix; `None` if the broker has closed the connection.
fn response(stream: &mut TcpStream) -> Option<Vec<u8>> {
    let mut length = [0; 4];
    match stream.read_exact(&mut length) {
        Ok(()) => {}
        Err(e)
            if matches!(
                e.kind(),
                ErrorKind::UnexpectedEof | ErrorKind::ConnectionReset
            ) =>
        {
            return None;
        }
        Err(e) => panic!("neither answered nor closed: {e}"),
    }
    let mut body = vec![0; usize::try_from(i32::from_be_bytes(length)).expect("a length")];
    stream.read_exact(&mut body).expect("a whole response");
    Some(body)
}

fn still_serves(addr: SocketAddr) {
    let mut stream = connect(addr);
    stream.write_all(&request(18, 0, &[])).expect("sent");
    let answer = response(&mut stream).expect("an answer");
    assert_eq!(answer[..6], [0, 0, 0, 7, 0, 0]);
}

#[test]
fn malformed_requests_end_their_connection_only() {
    let broker = broker();
    let huge = i32::MAX.to_be_bytes();
    let mut metadata_bomb = huge.to_vec();
    metadata_bomb.push(0);
    let mut produce_bomb = vec![0xff, 0xff, 0, 1, 0, 0, 0, 0];
    produce_bomb.extend_from_slice(&huge);
    let cases: Vec<(&str, Vec<u8>)> = vec![
        ("a frame over the limit", huge.to_vec()),
        ("a negative length", (-1_i32).to_be_bytes().to_vec()),
        (
            "a frame too short for a header",
            [0, 0, 0, 2, 0, 0].to_vec(),
        ),
        ("an unknown API", request(999, 0, &[])),
        ("a version that is not offered", request(1, 99, &[])),
        (
            "an array of two billion topics",
            request(3, 1, &metadata_bomb),
        ),
        (
            "two billion topics to produce to",
            request(0, 3, &produce_bomb),
        ),
        (
            "a flexible array of four billion",
            request(3, 9, &[0, 0xff, 0xff, 0xff, 0xff, 0x0f]),
        ),
        ("a body cut short", request(9, 1, &[0, 9, b'x'])),
        (
            "a string that is no text",
            request(9, 1, &[0, 1, 0xff, 0, 0, 0, 0]),
        ),
        (
            "another protocol",
            b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n".to_vec(),
        ),
    ];
    for (what, bytes) in cases {
        let mut stream = connect(broker.addr());
        stream.write_all(&bytes).expect("sent");
        assert_eq!(response(&mut stream), None, "{what}");
        still_serves(broker.addr());
    }
}

#[test]
fn every_prefix_and_every_flipped_byte_of_a_request_is_survived() {
    let broker = broker();
    // A Metadata request, version 9 (a flexible one), for one topic.
    let good = request(3, 9, &[0, 2, 2, b't', 0, 0, 0, 0, 0]);
    for i in 4..good.len() {
        let mut bytes = good.clone();
        bytes[i] ^= 0xff;
        let mut stream = connect(broker.addr());
        stream.write_all(&bytes).expect("sent");
        stream
            .shutdown(std::net::Shutdown::Write)
            .expect("half closed");
        response(&mut stream);
        let mut stream = connect(broker.addr());
        stream.write_all(&good[..i]).expect("sent");
        stream
            .shutdown(std::net::Shutdown::Write)
            .expect("half closed");
        assert_eq!(response(&mut stream), None);
    }
    still_serves(broker.addr());
}

#[test]
fn an_unknown_version_of_api_versions_is_answered_in_version_0() {
    let broker = broker();
    let mut stream = connect(broker.addr());
    stream.write_all(&request(18, 99, &[0])).expect("sent");
    let answer = response(&mut stream).expect("an answer");
    // The answer begins with the correlation id and UNSUPPORTED_VERSION; the list of versions follows.
    assert_eq!(answer[..6], [0, 0, 0, 7, 0, 35]);
    assert!(answer.len() > 100);
    // The connection stays open.
    stream.write_all(&request(18, 0, &[])).expect("sent");
    assert_eq!(
        response(&mut stream).expect("an answer")[..6],
        [0, 0, 0, 7, 0, 0]
    );
}

#[test]
fn requests_sent_at_once_are_answered_in_order() {
    let broker = broker();
    let mut stream = connect(broker.addr());
    let mut bytes = Vec::new();
    for i in 0..500_i32 {
        let mut one = request(18, 0, &[]);
        one[8..12].copy_from_slice(&i.to_be_bytes());
        bytes.extend_from_slice(&one);
    }
    stream.write_all(&bytes).expect("sent");
    for i in 0..500_i32 {
        assert_eq!(
            response(&mut stream).expect("an answer")[..4],
            i.to_be_bytes()
        );
    }
}

#[test]
fn one_connection_too_many_is_closed() {
    let broker = broker();
    let mut open: Vec<_> = (0..4).map(|_| connect(broker.addr())).collect();
    for stream in &mut open {
        stream.write_all(&request(18, 0, &[])).expect("sent");
        response(stream).expect("an answer");
    }
    assert_eq!(response(&mut connect(broker.addr())), None);
}

#[test]
fn an_old_record_format_is_refused_with_its_own_error() {
    let broker = broker();
    let mut stream = connect(broker.addr());
    // A Metadata request, version 1, creates the topic "t".
    stream
        .write_all(&request(3, 1, &[0, 0, 0, 1, 0, 1, b't']))
        .expect("sent");
    response(&mut stream).expect("an answer");
    let mut body = vec![0xff, 0xff, 0, 1, 0, 0, 0, 0];
    body.extend_from_slice(&[0, 0, 0, 1, 0, 1, b't', 0, 0, 0, 1, 0, 0, 0, 0]);
    let mut old = vec![0; 34];
    old[11] = 22;
    old[16] = 1;
    body.extend_from_slice(&34_i32.to_be_bytes());
    body.extend_from_slice(&old);
    stream.write_all(&request(0, 3, &body)).expect("sent");
    let answer = response(&mut stream).expect("an answer");
    // The expected answer: correlation id, one topic "t", one partition 0, UNSUPPORTED_FOR_MESSAGE_FORMAT.
    let expected = [
        0, 0, 0, 7, 0, 0, 0, 1, 0, 1, b't', 0, 0, 0, 1, 0, 0, 0, 0, 0, 43,
    ];
    assert_eq!(answer[..expected.len()], expected);
}

#[test]
fn an_address_that_others_can_reach_needs_to_be_allowed() {
    let config = BrokerConfig {
        listen: ([0, 0, 0, 0], 0).into(),
        ..BrokerConfig::default()
    };
    assert!(Broker::start(config).is_err());
}
