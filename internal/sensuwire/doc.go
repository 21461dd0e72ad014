// Package sensuwire is what Sensu Go 6 agents and backends say to each other: messages over
// WebSocket, in protobuf or JSON, of either end. The load tester speaks it as agents do
// (internal/load/sensu), the bridge as a backend does (internal/source/sensu).
//
// Decoders read the few fields that somebody needs and step over the rest; what they return
// lies in the message that they read. Nothing here keeps state. Start reading at codec.go;
// said.go is the hot path.
package sensuwire
