//! Turnover: whether pods stay or come and go.

use super::fading::FadingFactor;

/// The full weight of what is learnt from pods that stay.
pub(super) const STAYING: i64 = 1 << 8;

/// Grains of the pods that came and of those that left; earlier ones fade.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Turnover {
    came: i64,
    gone: i64,
}

impl Turnover {
    pub(super) fn came(&mut self, grains: i64) {
        self.came = self.came.saturating_add(grains);
    }

    pub(super) fn gone(&mut self, grains: i64) {
        self.gone = self.gone.saturating_add(grains);
    }

    pub(super) fn forget(&mut self, fading: FadingFactor) {
        self.came = fading.of(self.came);
        self.gone = fading.of(self.gone);
    }

    /// To what degree pods stay, in [`STAYING`]ths: full if none leave, zero once half of what comes
    /// leaves again.
    pub(super) fn staying(&self) -> i64 {
        let came = i128::from(self.came.max(1));
        let stays = came - 2 * i128::from(self.gone);
        i64::try_from(stays * i128::from(STAYING) / came)
            .unwrap_or(0)
            .clamp(0, STAYING)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn staying_falls_to_nothing_at_half_the_turnover() {
        for (came, gone, staying) in [
            (0, 0, STAYING),
            (100, 0, STAYING),
            (100, 25, STAYING / 2),
            (100, 50, 0),
            (100, 100, 0),
            (100, 1_000, 0),
            (0, 5, 0),
        ] {
            assert_eq!(Turnover { came, gone }.staying(), staying, "{came} {gone}");
        }
    }
}
