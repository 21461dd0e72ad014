package muster

import (
	"crypto/ed25519"
	"encoding/hex"
	"fmt"
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/muster-fleet/muster/internal/testenv"
	"github.com/muster-fleet/muster/internal/wire"
	"github.com/muster-fleet/muster/internal/wsconn"
)

// TestGoldenSession holds the server to the bytes of a whole short session: what the
// agent sends, what the server answers. An agent that was released must go on
// working; a change here is a change of the protocol.
func TestGoldenSession(t *testing.T) {
	key := ed25519.NewKeyFromSeed(make([]byte, ed25519.SeedSize))
	w := newWorld(t, func(c *Config) {
		c.SigningKey = key
		c.Now = func() time.Time { return time.UnixMilli(1_800_000_000_000) }
		c.Rand = func() float64 { return 0.5 }
		c.Servers, c.Version = []string{"muster.example:8443"}, "1.2.3"
	})
	uid := w.node(1, 1)
	nc, err := net.Dial("tcp", w.addr)
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	conn, err := wsconn.Connect(nc, w.addr, Path, wire.Subprotocol, wsconn.Options{Timeout: time.Minute, Buffers: new(wsconn.Buffers)})
	if err != nil {
		t.Fatal(err)
	}
	var text strings.Builder
	say := func(name string, frame []byte) {
		fmt.Fprintf(&text, "agent: %s\n%s", name, hex.Dump(frame))
		if err := conn.Write(append(make([]byte, wsconn.Headroom), frame...)); err != nil {
			t.Fatal(err)
		}
	}
	hear := func(name string, want wire.Kind) {
		_, frame, err := conn.Read(wire.MaxFrame)
		if err != nil {
			t.Fatal(err)
		}
		if kind, _, _ := wire.FrameKind(frame); kind != want {
			t.Fatalf("server says message %d, want %s", kind, name)
		}
		fmt.Fprintf(&text, "server: %s\n%s", name, hex.Dump(frame))
	}
	say("Hello", wire.AppendHello(nil, &wire.Hello{
		Protocol: 1, Node: uid, Name: "web01", MachineID: "m", BootID: "b", Session: 77, Version: "1.0.0", OS: "linux", Arch: "amd64",
		Streams: []wire.StreamRange{{StreamKey: live, First: 1}}, ClockUnixMs: 1_800_000_000_123, Features: wire.Features(),
	}))
	hear("Welcome", wire.KindWelcome)
	hear("Assignment", wire.KindAssignment)
	a := w.plan.For(1001)
	say("Holding", wire.AppendAssignmentStatus(nil, &wire.AssignmentStatus{Generation: a.Generation, Hash: a.Hash}))
	bad := results(1, 2, 1)
	bad.NowMs, bad.Signals[1].Chunk = 5000, 99
	say("Batch: a result, and one of an unknown definition", wire.AppendBatch(nil, bad))
	hear("Ack", wire.KindAck)
	say("Batch with a hole before it", wire.AppendBatch(nil, results(9, 1, 1)))
	hear("Refuse", wire.KindRefuse)

	path := filepath.Join("testdata", "session.golden")
	testenv.Golden(t, path, text.String(), "agents out there speak these bytes: only what is new may differ")
}
