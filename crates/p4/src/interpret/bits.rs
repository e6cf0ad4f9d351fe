//! Bits in bytes, the most significant first.

/// Reads so many bits, at most 128, from a place counted in bits; `None` past the end.
pub fn read(bytes: &[u8], at: usize, width: u32) -> Option<u128> {
    let end = at.checked_add(width as usize)?;
    if end > bytes.len() * 8 {
        return None;
    }
    let mut value = 0u128;
    let mut at = at;
    while at < end {
        let inside = at % 8;
        let taken = (8 - inside).min(end - at);
        let byte = u128::from(bytes[at / 8]) >> (8 - inside - taken) & ((1 << taken) - 1);
        value = value << taken | byte;
        at += taken;
    }
    Some(value)
}

/// Bytes that are filled bit by bit.
#[derive(Debug, Default)]
pub struct Writer {
    bytes: Vec<u8>,
    /// Bits in the last byte that are free.
    free: usize,
}

impl Writer {
    /// Adds the low `width` bits.
    pub fn write(&mut self, value: u128, width: u32) {
        let mut left = width as usize;
        while left > 0 {
            if self.free == 0 {
                self.bytes.push(0);
                self.free = 8;
            }
            let taken = self.free.min(left);
            let part = (value >> (left - taken)) as u8 & (0xff >> (8 - taken));
            *self.bytes.last_mut().expect("just pushed") |= part << (self.free - taken);
            self.free -= taken;
            left -= taken;
        }
    }

    /// Begins anew, in the memory that it has.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.free = 0;
    }

    /// The bytes so far, the last filled up with zeros.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// All bytes, the last filled up with zeros.
    pub fn finish(self) -> Vec<u8> {
        self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_cross_bytes() {
        let bytes = [0x12, 0x34, 0x56];
        assert_eq!(read(&bytes, 0, 4), Some(1));
        assert_eq!(read(&bytes, 4, 12), Some(0x234));
        assert_eq!(read(&bytes, 3, 18), Some(0x12_3456 >> 3 & 0x3ffff));
        assert_eq!((read(&bytes, 24, 0), read(&bytes, 20, 5)), (Some(0), None));
    }

    #[test]
    fn what_is_written_is_read() {
        let mut writer = Writer::default();
        let parts = [(5, 3), (0x1_ffff, 17), (u128::MAX - 1, 128), (0, 1), (0x7f, 7)];
        for (value, width) in parts {
            writer.write(value, width);
        }
        let bytes = writer.finish();
        let mut at = 0;
        for (value, width) in parts {
            assert_eq!(read(&bytes, at, width), Some(value));
            at += width as usize;
        }
        assert_eq!(bytes.len(), 156usize.div_ceil(8));
    }
}
