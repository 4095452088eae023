//! Makes a client fail fatally, for tests.
#![expect(unsafe_code, reason = "rdkafka has no safe call for it")]

use rdkafka::ClientContext;
use rdkafka::bindings::rd_kafka_test_fatal_error;
use rdkafka::client::Client;
use rdkafka::types::RDKafkaRespErr;

/// Makes a client meet a fatal error.
pub(crate) fn end<C: ClientContext>(client: &Client<C>) {
    let error = RDKafkaRespErr::RD_KAFKA_RESP_ERR_OUT_OF_ORDER_SEQUENCE_NUMBER;
    // SAFETY: the client is alive as long as it is borrowed; the text ends in a zero byte and is
    // copied.
    let done =
        unsafe { rd_kafka_test_fatal_error(client.native_ptr(), error, c"for a test".as_ptr()) };
    assert_eq!(done, RDKafkaRespErr::RD_KAFKA_RESP_ERR_NO_ERROR);
}
