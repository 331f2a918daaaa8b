//! A call that is made again with answers: what it carries, sealed to caller, request and time.

use crate::{
    auth::Principal,
    clock,
    runtime::{
        Runtime,
        ask::fits,
        call::Op,
        error::{CallError, Result},
    },
    seal::digest,
    store::If,
};
use bytes::Bytes;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use std::{collections::BTreeMap, time::Duration};
use zcp_wire::{
    RpcError,
    json::has_more_values,
    mcp::{InputRequest, InputRequired},
    params::{Params, optional_text},
};

/// Rounds of questions one call may take.
const ROUNDS: u32 = 32;
/// Bytes of answers and kept values one call may carry.
const LARGEST: usize = 64 * 1024;
/// JSON values in them: each takes many times the memory of its text for as long as the call runs.
const MOST_VALUES: usize = 1000;

/// What one run of a call knows of the runs before, and asks of the next.
pub(super) struct Retry {
    request: Bound,
    again: bool,
    // A box made when it is needed: most calls ask nothing.
    asking: Option<Box<Asking>>,
}

#[derive(Default)]
struct Asking {
    carried: Carried,
    fresh: Map<String, Value>,
    asked: Vec<(String, InputRequest)>,
    /// The nonce is used up.
    spent: bool,
}

/// The caller and the request a state is good for.
struct Bound {
    op: Op,
    principal: Principal,
}

impl Bound {
    /// Made only when there is a state: most calls ask nothing.
    fn to_text(&self) -> String {
        let (kind, name, args): (_, &str, _) = match &self.op {
            Op::CallTool { name, args } => ("tool", name, args.as_deref().map(canonical)),
            Op::GetPrompt { name, args } => ("prompt", name, Some(json!(args).to_string())),
            Op::ReadResource { uri } => ("resource", uri, None),
            _ => return String::new(),
        };
        let digest = digest(args.as_deref().unwrap_or("{}").as_bytes());
        // With its length in front, no part can pass for the end of another.
        let parts = [self.principal.key(), kind, name, &digest];
        parts.map(|part| format!("{}:{part}", part.len())).concat()
    }
}

/// What travels sealed with the client.
#[derive(Default, Serialize, Deserialize)]
struct Carried {
    expires: u64,
    round: u32,
    nonce: String,
    answers: Map<String, Value>,
    kept: Map<String, Value>,
}

/// Refuses answers that are too large to be carried along.
pub(super) fn check_answers(raw: Option<&str>) -> Result<(), RpcError> {
    match raw.filter(|raw| is_too_large(raw.as_bytes())) {
        Some(_) => Err(RpcError::invalid_params(format!(
            "`inputResponses` may have {LARGEST} bytes and {MOST_VALUES} JSON values at most"
        ))),
        None => Ok(()),
    }
}

fn is_too_large(text: &[u8]) -> bool {
    text.len() > LARGEST || has_more_values(text, MOST_VALUES)
}

impl Retry {
    /// What a request carries; nothing for operations that take no questions.
    pub(super) fn open(
        runtime: &Runtime,
        op: &Op,
        params: &Params<'_>,
        principal: &Principal,
    ) -> Result<Option<Self>, RpcError> {
        if !matches!(op, Op::CallTool { .. } | Op::GetPrompt { .. } | Op::ReadResource { .. }) {
            return Ok(None);
        }
        let request = Bound { op: op.clone(), principal: principal.clone() };
        if params.input_responses.is_none() && params.request_state.is_none() {
            return Ok(Some(Self { request, again: false, asking: None }));
        }
        check_answers(params.input_responses)?;
        let fresh = match params.input_responses {
            None => Map::new(),
            Some(raw) => serde_json::from_str(raw).map_err(|_| {
                RpcError::invalid_params("`inputResponses` must be an object of answers by key")
            })?,
        };
        let state = optional_text("requestState", params.request_state)?;
        let carried = match &state {
            None => Carried::default(),
            Some(state) => unseal(runtime, state, &request.to_text())?,
        };
        // What was never asked has no answer that could be used only once.
        let fresh = match state.is_none() && runtime.settings.single_use {
            true => Map::new(),
            false => fresh,
        };
        let again = state.is_some() || !fresh.is_empty();
        let asking = Some(Box::new(Asking {
            carried,
            fresh,
            asked: vec![],
            spent: runtime.settings.single_use,
        }));
        Ok(Some(Self { request, again, asking }))
    }

    fn asking(&mut self) -> &mut Asking {
        self.asking.get_or_insert_default()
    }

    pub(super) fn is_again(&self) -> bool {
        self.again
    }

    pub(super) fn nonce(&self) -> Option<String> {
        let asking = self.asking.as_ref()?;
        Some(asking.carried.nonce.clone()).filter(|nonce| !nonce.is_empty())
    }

    /// The nonce to be used up before an answer is handed out: a tool that acts must not run twice
    /// for one answer. None if the question has no answer yet, or the nonce is used up.
    pub(super) fn spends(
        &mut self,
        runtime: &Runtime,
        key: &str,
        question: &InputRequest,
    ) -> Option<String> {
        let nonce = self.nonce()?;
        if !acts(runtime, &self.request.op) {
            return None;
        }
        let asking = self.asking();
        let fits = |answer: &Value| fits(question, answer).is_ok();
        // An answer that was carried along is good for the one run that it is carried to.
        let is_there =
            asking.carried.answers.contains_key(key) || asking.fresh.get(key).is_some_and(fits);
        let handed_out = is_there && !asking.spent;
        asking.spent |= handed_out;
        handed_out.then_some(nonce)
    }

    /// Uses up a nonce; a second time is refused.
    pub(super) async fn claim(runtime: &Runtime, nonce: &str) -> Result<(), RpcError> {
        let lifetime = runtime.settings.input_ttl.saturating_add(Duration::from_secs(60));
        let key = format!("nonce/{nonce}");
        match runtime.store.put(&key, Bytes::new(), If::Absent, Some(lifetime)).await {
            Ok(true) => Ok(()),
            Ok(false) => Err(RpcError::invalid_params("`requestState` was used before")),
            Err(error) => Err(RpcError::internal(error.for_clients())),
        }
    }

    /// The answer to a question, or a pause to get one. An answer that does not fit is asked for
    /// again.
    pub(super) fn ask(&mut self, key: String, question: InputRequest) -> Result<Value> {
        let asking = self.asking();
        // What was answered stays answered: the handler may have acted on it.
        if let Some(answer) = asking.carried.answers.get(&key) {
            return Ok(answer.clone());
        }
        let fitting = |answer: &&Value| fits(&question, answer).is_ok();
        if let Some(answer) = asking.fresh.get(&key).filter(fitting) {
            let answer = answer.clone();
            asking.carried.answers.insert(key, answer.clone());
            return Ok(answer);
        }
        self.put(key, question);
        Err(CallError::Paused)
    }

    /// Puts a question into what is asked next.
    pub(super) fn put(&mut self, key: String, mut question: InputRequest) {
        if let InputRequest::Elicit(elicit) = &mut question {
            elicit.elicitation_id = None;
        }
        let asked = &mut self.asking().asked;
        asked.retain(|(asked, _)| *asked != key);
        asked.push((key, question));
    }

    pub(super) fn kept(&self, key: &str) -> Option<Value> {
        self.asking.as_ref()?.carried.kept.get(key).cloned()
    }

    pub(super) fn all_kept(&self) -> Map<String, Value> {
        self.asking.as_ref().map(|asking| asking.carried.kept.clone()).unwrap_or_default()
    }

    pub(super) fn keep(&mut self, key: &str, value: Value) {
        self.asking().carried.kept.insert(key.to_owned(), value);
    }

    /// What was asked, and all that is known, for the next run.
    pub(super) fn input_required(&mut self, runtime: &Runtime) -> Result<InputRequired, RpcError> {
        let bound = self.request.to_text();
        let asking = self.asking();
        if asking.asked.is_empty() {
            return Err(RpcError::internal("the handler paused without a question"));
        }
        if asking.carried.round >= ROUNDS {
            return Err(RpcError::internal(format!("gave up after {ROUNDS} rounds of questions")));
        }
        let carried = Carried {
            expires: clock::now().saturating_add(runtime.settings.input_ttl.as_secs()),
            round: asking.carried.round + 1,
            nonce: crate::token(),
            answers: std::mem::take(&mut asking.carried.answers),
            kept: std::mem::take(&mut asking.carried.kept),
        };
        let plain =
            serde_json::to_vec(&carried).map_err(|error| RpcError::internal(error.to_string()))?;
        if is_too_large(&plain) {
            return Err(RpcError::internal("the answers of this call are too large to carry"));
        }
        let request = |(key, question): (String, InputRequest)| (key, question.to_value());
        Ok(InputRequired {
            input_requests: std::mem::take(&mut asking.asked).into_iter().map(request).collect(),
            request_state: Some(runtime.keys.seal(&plain, bound.as_bytes())),
        })
    }
}

/// Whether an operation is a call of a tool that must not run twice.
fn acts(runtime: &Runtime, op: &Op) -> bool {
    matches!(op, Op::CallTool { name, .. } if !runtime.may_run_twice(name))
}

fn unseal(runtime: &Runtime, state: &str, bound_to: &str) -> Result<Carried, RpcError> {
    let opened = runtime.keys.open(state, bound_to.as_bytes());
    let carried: Option<Carried> = opened.and_then(|plain| serde_json::from_slice(&plain).ok());
    let carried = carried.ok_or_else(|| {
        RpcError::invalid_params("`requestState` is not from this server, caller and request")
    })?;
    if carried.expires <= clock::now() {
        return Err(RpcError::invalid_params("`requestState` has expired: make the call anew"));
    }
    Ok(carried)
}

/// JSON text that is the same for equal objects, whatever the order of their members.
fn canonical(json: &str) -> String {
    fn sorted(value: Value) -> Value {
        match value {
            Value::Object(members) => {
                let sorted: BTreeMap<_, _> =
                    members.into_iter().map(|(key, value)| (key, sorted(value))).collect();
                Value::Object(sorted.into_iter().collect())
            }
            Value::Array(items) => items.into_iter().map(sorted).collect(),
            other => other,
        }
    }
    serde_json::from_str(json).map_or_else(|_| json.to_owned(), |value| sorted(value).to_string())
}
