//! Query parameters and path segments as text.

use crate::failure::Failure;

/// The parameters of a request.
#[derive(Debug, Default)]
pub(crate) struct Query(Vec<(String, String)>);

impl Query {
    pub(crate) fn parse(query: &str) -> Self {
        let pairs = query
            .split('&')
            .filter(|pair| !pair.is_empty())
            .map(|pair| {
                let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
                (
                    decoded(&key.replace('+', " ")),
                    decoded(&value.replace('+', " ")),
                )
            });
        Self(pairs.collect())
    }

    /// A parameter; one that is present and empty counts as absent, as in the API.
    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        let found = self.0.iter().find(|(key, _)| key == name);
        found
            .map(|(_, value)| value.as_str())
            .filter(|value| !value.is_empty())
    }

    pub(crate) fn flag(&self, name: &str) -> bool {
        matches!(
            self.get(name),
            Some("true" | "1" | "t" | "T" | "TRUE" | "True")
        )
    }

    pub(crate) fn number<T: std::str::FromStr>(&self, name: &str) -> Result<Option<T>, Failure> {
        let parsed = self.get(name).map(|text| {
            text.parse().map_err(|_| {
                Failure::bad_request(format!("parameter {name} must be a number, not {text:?}"))
            })
        });
        parsed.transpose()
    }
}

/// Undoes percent encoding; a stray `%` stands for itself.
pub(crate) fn decoded(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, tail)) = rest.split_first() {
        let escaped = (*first == b'%').then(|| tail.get(..2)).flatten();
        let value = escaped.and_then(|hex| std::str::from_utf8(hex).ok());
        if let Some(byte) = value.and_then(|hex| u8::from_str_radix(hex, 16).ok()) {
            bytes.push(byte);
            rest = tail.get(2..).unwrap_or_default();
        } else {
            bytes.push(*first);
            rest = tail;
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_decoded_and_empty_ones_are_absent() {
        let query = Query::parse("labelSelector=a%3Db%2Cc+in+%28d%29&watch=true&limit=&x=1%2");
        assert_eq!(query.get("labelSelector"), Some("a=b,c in (d)"));
        assert!(query.flag("watch"));
        assert_eq!(query.number::<u64>("limit").unwrap(), None);
        assert_eq!(query.get("x"), Some("1%2"));
        assert!(Query::parse("limit=x").number::<u64>("limit").is_err());
    }
}
