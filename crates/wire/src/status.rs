//! HTTP status codes: which one an error is answered with, and what one says of the server.

use crate::error::{
    BUSY, DENIED, HEADER_MISMATCH, METHOD_NOT_FOUND, MISSING_CLIENT_CAPABILITY,
    UNSUPPORTED_PROTOCOL_VERSION,
};
use http::StatusCode;

/// The status of a request that was refused before anything ran.
pub fn of_refusal(code: i64) -> StatusCode {
    match code {
        METHOD_NOT_FOUND => StatusCode::NOT_FOUND,
        _ => StatusCode::BAD_REQUEST,
    }
}

/// The status of a handshake that was refused, by what was said or by a layer.
pub fn of_handshake(code: i64) -> StatusCode {
    if matches!(code, DENIED | BUSY) { of_error(code) } else { of_refusal(code) }
}

/// The status of a call that ran and gave an error, outside a session.
pub fn of_error(code: i64) -> StatusCode {
    match code {
        DENIED => StatusCode::FORBIDDEN,
        BUSY => StatusCode::TOO_MANY_REQUESTS,
        _ if is_stateless(code) => StatusCode::BAD_REQUEST,
        _ => StatusCode::OK,
    }
}

/// The status of any answer in a session. Clients of that era take another one for the end of their
/// connection.
pub const IN_SESSION: StatusCode = StatusCode::OK;

/// The status of a request whose session is not there, or no longer. It was not looked at.
pub const NO_SESSION: StatusCode = StatusCode::NOT_FOUND;

/// Whether only servers of 2026-07-28 and later answer with this code.
pub fn is_stateless(code: i64) -> bool {
    matches!(code, HEADER_MISMATCH | MISSING_CLIENT_CAPABILITY | UNSUPPORTED_PROTOCOL_VERSION)
}

/// Whether a status without a message may be that of a server of 2024-11-05, which takes no POST
/// there.
pub fn may_be_2024(status: u16) -> bool {
    matches!(status, 400 | 404 | 405)
}

/// Whether a status is of somebody on the way, or of the day: it does not tell the server's age.
pub fn tells_no_age(status: u16) -> bool {
    matches!(status, 401 | 403 | 407) || may_pass(status)
}

/// Whether the same request may be answered otherwise later.
pub fn may_pass(status: u16) -> bool {
    matches!(status, 429 | 500..)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::{INTERNAL_ERROR, INVALID_PARAMS, INVALID_REQUEST, PARSE_ERROR};

    #[test]
    fn an_error_has_the_status_of_when_it_was_found() {
        let all = |code| [of_refusal(code), of_handshake(code), of_error(code)].map(|s| s.as_u16());
        for code in [PARSE_ERROR, INVALID_REQUEST, INVALID_PARAMS, INTERNAL_ERROR] {
            assert_eq!(all(code), [400, 400, 200], "{code}");
        }
        assert_eq!(all(METHOD_NOT_FOUND), [404, 404, 200]);
        for code in [HEADER_MISMATCH, MISSING_CLIENT_CAPABILITY, UNSUPPORTED_PROTOCOL_VERSION] {
            assert_eq!(all(code), [400, 400, 400], "{code}");
        }
        assert_eq!(all(403), [400, 403, 403]);
        assert_eq!(all(429), [400, 429, 429]);
    }

    #[test]
    fn a_status_tells_a_servers_age_or_nothing() {
        let those = |is: fn(u16) -> bool| (100..600).filter(|status| is(*status)).count();
        assert_eq!((those(may_be_2024), those(tells_no_age), those(may_pass)), (3, 104, 101));
        assert!((100..600).all(|status| !(may_be_2024(status) && tells_no_age(status))));
        assert!(may_be_2024(405) && tells_no_age(401) && may_pass(429) && !may_pass(403));
    }
}
