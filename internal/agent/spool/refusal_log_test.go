package spool

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"

	"github.com/muster-fleet/muster/internal/journal/memfs"
	"github.com/muster-fleet/muster/internal/wire"
)

// A check that is refused for ever is told of once per code and minute, with a count.
func TestRefusalsAreToldOnceAMinute(t *testing.T) {
	var log bytes.Buffer
	clock := newHands()
	s, err := Open("/spool", Options{FS: memfs.New(), Clock: clock, Linger: -1, Logger: slog.New(slog.NewTextHandler(&log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	key := wire.StreamKey{Stream: s.Stats().Stream, Lane: wire.Live}
	refuse := func(code string) {
		s.Acked(&wire.Ack{Refused: []wire.RefusedSignal{{StreamKey: key, Number: 1, Code: code, Reason: "no room"}}})
	}
	for range 90 { // a second apart
		refuse("node_limit")
		clock.pass(1000)
	}
	refuse("output")
	var told []string
	for line := range strings.Lines(log.String()) {
		if _, rest, ok := strings.Cut(line, `msg="server refused results" `); ok {
			rest, _, _ = strings.Cut(rest, " hint=")
			told = append(told, strings.TrimSpace(rest))
		}
	}
	want := []string{
		`code=node_limit count=1 number=1 reason="no room"`, `code=node_limit count=60 number=1 reason="no room"`,
		`code=output count=1 number=1 reason="no room"`,
	}
	if strings.Join(told, "\n") != strings.Join(want, "\n") {
		t.Errorf("told\n%s\nwant\n%s", strings.Join(told, "\n"), strings.Join(want, "\n"))
	}
	if n := s.Stats().Refused; n != 91 {
		t.Errorf("%d counted", n)
	}
}
