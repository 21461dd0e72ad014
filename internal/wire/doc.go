// Package wire holds every byte that crosses a process or a restart: the frames of
// the agent's protocol and the records of the journal. It knows nothing of
// sockets or files.
//
// Frames are protobuf, defined in docs/protocol/muster.proto. wiregen generates the codec of
// most messages from it, and of the journal's records (codec.gen.go); batch, signal, assignment and definition are
// tuned by hand. A test holds all of them to the definition. Field numbers are never reused.
// Encoders append to a slice; decoders fill a struct that the caller reuses, and byte slices in
// it alias the input. Start at protocol_messages.go (messages), then journal_record.go (journal); field_decoder.go and
// field_encoder.go read and write protobuf.
//
//go:generate go run ./wiregen
package wire
