// Package wire holds every byte that crosses a process or a restart: the frames of
// the agent's protocol and the records of the journal. It knows nothing of
// sockets or files.
//
// Frames are protobuf (docs/protocol/muster.proto is the definition, this package
// the hand-tuned codec; a test holds the two together). Field numbers are never
// reused. Encoders append to a slice; decoders fill a struct that the caller
// reuses, and byte slices in it alias the input. Start at frame.go (what agents
// and servers say), then record.go (what the journal keeps); fields.go and append.go
// read and write protobuf.
package wire
