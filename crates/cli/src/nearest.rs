//! What was probably meant.

/// `did you mean …?`, if something is near, and otherwise what there is.
pub(crate) fn hint<'a>(typed: &str, known: impl Iterator<Item = &'a str>) -> String {
    let known: Vec<&str> = known.collect();
    match near(typed, known.iter().copied()) {
        Some(name) => format!("did you mean `{name}`?"),
        None if known.is_empty() => "there is none".to_owned(),
        None => format!("there are {}", known.join(", ")),
    }
}

/// What was typed with a slip, if it is one of these.
pub(crate) fn near<'a>(typed: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let typed = typed.to_lowercase();
    let far = |name: &&str| strsim::damerau_levenshtein(&typed, &name.to_lowercase());
    known.min_by_key(far).filter(|name| far(name) <= 1 + name.len() / 4)
}

#[cfg(test)]
mod tests {
    use super::hint;

    #[test]
    fn a_slip_is_understood_and_otherwise_all_are_named() {
        let known = || ["greet", "weather"].into_iter();
        assert_eq!(hint("gret", known()), "did you mean `greet`?");
        assert_eq!(hint("Waether", known()), "did you mean `weather`?");
        assert_eq!(hint("x", known()), "there are greet, weather");
        assert_eq!(hint("x", [].into_iter()), "there is none");
    }
}
