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
    /// Takes a notification; says what is wrong with it.
    pub(crate) fn hear(&mut self, message: &Value) -> Result<(), String> {
        let uri = message["params"]["uri"].as_str().unwrap_or_default();
        let number = uri.strip_prefix(NEWS).and_then(|number| number[1..].parse::<u64>().ok());
        let number = number.ok_or_else(|| format!("no news: {message}"))?;
        let (fits, last) = match self.last {
            Some(last) => (number == last + 1, last),
            // One more may have been on its way.
            None => (number <= self.since + 2, self.since),
        };
        self.last = Some(number);
        fits.then_some(()).ok_or_else(|| format!("news {number} come after {last}"))
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

    /// Takes what is said of the call; true of its response. Says what is wrong with it.
    pub(crate) fn hear(&mut self, message: &Value) -> Result<bool, String> {
        let Self { id, to, label, heard } = self;
        let is_response = message.get("method").is_none();
        let fits = if is_response {
            message["id"] == *id && text(&message["result"]) == label && heard == to
        } else {
            *heard += 1;
            let params = &message["params"];
            params["progressToken"] == *id && params["progress"] == *heard as f64
        };
        fits.then_some(is_response)
            .ok_or_else(|| format!("{label}, step {heard} of {to}: {message}"))
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
    let news = |number: u32| json!({ "params": { "uri": format!("{NEWS}/{number}") } });
    let step = |number: u32| {
        let params = json!({ "progressToken": 1, "progress": f64::from(number) });
        json!({ "method": "notifications/progress", "params": params })
    };
    let content = json!([{ "type": "text", "text": "call 1 of client 1" }]);
    let response = json!({ "id": 1, "result": { "content": content } });
    for (numbers, is_fine) in [
        (&[1, 2, 3][..], true),
        (&[2, 3, 4], true),
        (&[3], false),
        (&[1, 3], false),
        (&[1, 1], false),
        (&[1, 3, 2], false),
    ] {
        let mut all = News::default();
        let told: Result<Vec<()>, _> =
            numbers.iter().map(|number| all.hear(&news(*number))).collect();
        assert_eq!(told.is_ok(), is_fine, "{numbers:?}");
        let mut call = Count::new(1, 3, 1);
        let counted: Result<Vec<bool>, _> =
            numbers.iter().map(|number| call.hear(&step(*number))).collect();
        let counted = counted.and_then(|_| call.hear(&response));
        assert_eq!(counted.is_ok(), numbers == [1, 2, 3], "{numbers:?}");
    }
}
