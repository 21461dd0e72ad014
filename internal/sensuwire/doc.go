// Package sensuwire encodes and decodes the messages between agents and backends of Sensu Go 6, over WebSocket, in
// protobuf or JSON. The load tester uses the agent's end (internal/load/sensu), the source of Sensu agents the backend's
// (internal/source/sensu).
//
// One table of fields per message serves both encodings: decode.go reads by such tables, encode.go writes. Decoders read
// the fields that somebody needs and skip the rest. Slices that they return lie in the message. The package has no state.
// Start reading at message.go; event.go is the hot path.
package sensuwire
