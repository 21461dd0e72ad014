package wire

// Pass forgets that the last signal could not be decoded, so that Next goes on with
// the one after it: signals are delimited, and one that is damaged is refused by its
// number instead of holding up all that follow.
func (r *BatchReader) Pass() { r.err = nil }
