//! What one client hears: every event once, and in order.

use serde_json::{Value, json};
use zcp_tests::{call, request, text};

/// What lies below it is news.
pub(crate) const NEWS: &str = "feed://news";

/// The news that a client hears: numbers without a gap.
#[derive(Default)]
pub(crate) struct News {
    /// The number that was published last when the client began to listen.
    pub(crate) since: u64,
    pub(crate) last: Option<u64>,
}

impl News {
    /// Checks a notification.
    pub(crate) fn hear(&mut self, message: &Value) {
        assert_eq!(message["method"], "notifications/resources/updated", "{message}");
        let uri = message["params"]["uri"].as_str().expect("an update has a URI");
        let number: u64 = uri[NEWS.len() + 1..].parse().expect("news have numbers");
        match self.last {
            Some(last) => assert_eq!(number, last + 1, "after {last}"),
            // One more may have been on its way.
            None => assert!(number <= self.since + 2, "{number} is the first since {}", self.since),
        }
        self.last = Some(number);
    }

    /// Whether it has heard everything up to a number.
    pub(crate) fn has(&self, number: u64) -> bool {
        self.last.unwrap_or(self.since) >= number
    }
}

/// A call that counts, and what was heard of it.
pub(crate) struct Count {
    id: u64,
    to: u64,
    label: String,
    heard: u64,
}

impl Count {
    pub(crate) fn new(id: u64, to: u64, client: usize) -> Self {
        Self { id, to, label: format!("call {id} of client {client}"), heard: 0 }
    }

    pub(crate) fn request(&self) -> Value {
        let mut params = call("count", json!({ "to": self.to, "label": self.label }));
        params["_meta"] = json!({ "progressToken": self.id });
        request(self.id, "tools/call", params)
    }

    /// Checks what is said of the call; true of its response.
    pub(crate) fn hear(&mut self, message: &Value) -> bool {
        let label = &self.label;
        if message.get("method").is_none() {
            assert_eq!(message["id"], self.id, "{label}: {message}");
            assert_eq!(text(&message["result"]), label, "{message}");
            assert_eq!(self.heard, self.to, "{label}: answered too soon");
            return true;
        }
        assert_eq!(message["method"], "notifications/progress", "{label}: {message}");
        assert_eq!(message["params"]["progressToken"], self.id, "{label}: {message}");
        assert_eq!(message["params"]["progress"], (self.heard + 1) as f64, "{label}: {message}");
        self.heard += 1;
        false
    }
}

/// Chance that is the same in every run.
pub(crate) struct Chance(u64);

impl Chance {
    pub(crate) fn new(seed: usize) -> Self {
        Self(seed as u64)
    }

    /// A number below `end`.
    pub(crate) fn below(&mut self, end: u64) -> u64 {
        // SplitMix64.
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % end
    }
}

#[test]
fn what_is_lost_repeated_or_out_of_order_is_noticed() {
    let news = |number: u64| {
        let uri = format!("{NEWS}/{number}");
        json!({ "method": "notifications/resources/updated", "params": { "uri": uri } })
    };
    let step = |number: f64| {
        let params = json!({ "progressToken": 1, "progress": number });
        json!({ "method": "notifications/progress", "params": params })
    };
    for (heard, is_fine) in [
        (&[1_u32, 2, 3][..], true),
        (&[2, 3, 4], true),
        (&[3], false),
        (&[1, 3], false),
        (&[1, 1], false),
        (&[1, 3, 2], false),
    ] {
        let told = std::panic::catch_unwind(|| {
            let mut all = News::default();
            heard.iter().for_each(|number| all.hear(&news(u64::from(*number))));
        });
        assert_eq!(told.is_ok(), is_fine, "{heard:?}");
        let counted = std::panic::catch_unwind(|| {
            let mut call = Count::new(1, 3, 1);
            heard.iter().for_each(|number| assert!(!call.hear(&step(f64::from(*number)))));
            let content = json!([{ "type": "text", "text": "call 1 of client 1" }]);
            call.hear(&json!({ "id": 1, "result": { "content": content } }))
        });
        assert_eq!(counted.is_ok(), heard == [1, 2, 3], "{heard:?}");
    }
}
