//! The wire format of protobuf: numbered fields, one after the other. It does not know any message types.

/// Reads the fields of one message; stops after the first broken one.
pub(super) struct Reader<'b> {
    rest: &'b [u8],
}

/// What a field holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Payload<'b> {
    Number(u64),
    Bytes(&'b [u8]),
}

const BROKEN: &str = "the body is cut off or is no protobuf";

impl<'b> Reader<'b> {
    pub(super) fn new(rest: &'b [u8]) -> Self {
        Self { rest }
    }

    fn varint(&mut self) -> Result<u64, String> {
        let mut number = 0_u64;
        for shift in (0..u64::BITS).step_by(7) {
            let (byte, rest) = self.rest.split_first().ok_or(BROKEN)?;
            self.rest = rest;
            number |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Ok(number);
            }
        }
        Err(BROKEN.to_owned())
    }

    fn field(&mut self) -> Result<(u64, Payload<'b>), String> {
        let key = self.varint()?;
        let payload = match key & 7 {
            0 => Payload::Number(self.varint()?),
            2 => {
                let length = usize::try_from(self.varint()?).map_err(|_| BROKEN)?;
                let (bytes, rest) = self.rest.split_at_checked(length).ok_or(BROKEN)?;
                self.rest = rest;
                Payload::Bytes(bytes)
            }
            // No kind of Kubernetes has fields of fixed width.
            _ => return Err(BROKEN.to_owned()),
        };
        Ok((key >> 3, payload))
    }
}

impl<'b> Iterator for Reader<'b> {
    type Item = Result<(u64, Payload<'b>), String>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        let field = self.field();
        if field.is_err() {
            self.rest = &[];
        }
        Some(field)
    }
}

impl<'b> Payload<'b> {
    pub(super) fn bytes(self, path: &str) -> Result<&'b [u8], String> {
        match self {
            Self::Bytes(bytes) => Ok(bytes),
            Self::Number(_) => Err(format!("{path}: a number where there should be none")),
        }
    }

    pub(super) fn text(self, path: &str) -> Result<&'b str, String> {
        std::str::from_utf8(self.bytes(path)?).map_err(|error| format!("{path}: {error}"))
    }

    pub(super) fn number(self, path: &str) -> Result<i64, String> {
        match self {
            // Negative numbers are written as unsigned ones.
            Self::Number(number) => Ok(number.cast_signed()),
            Self::Bytes(_) => Err(format!("{path}: should be a number")),
        }
    }

    pub(super) fn flag(self, path: &str) -> Result<bool, String> {
        self.number(path).map(|number| number != 0)
    }
}
