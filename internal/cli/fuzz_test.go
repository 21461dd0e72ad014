package cli

import (
	"testing"
	"time"

	"github.com/muster-fleet/muster/internal/kind"
)

// FuzzArguments parses any text as a time, age, lifetime, status, target and document: each is a value
// or an error with a message.
func FuzzArguments(f *testing.F) {
	for _, text := range []string{"03:00", "24h", "2026-12-24 18:00", "0", "critical,2", `web01,group:web,where:node.labels.env == "a,b"`, "kind: Check\nmetadata: {name: disk}\nspec: {interval: 60s, command: x}\n"} {
		f.Add(text)
	}
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	s := &session{Env: &Env{Zone: time.UTC, Kinds: kind.All()}}
	f.Fuzz(func(t *testing.T, text string) {
		if at, err := s.parseTime(text, now); err == nil && len(text) == len("15:04") && !at.After(now) {
			t.Errorf("%q is %s", text, at)
		}
		if at, err := parsePast("at", text, now); err != nil && !at.IsZero() {
			t.Errorf("%q is %s with %v", text, at, err)
		}
		if seconds, err := parseLifetime("--for", text); err == nil && (seconds < 0 || seconds > int64(maxLifetime/time.Second)) {
			t.Errorf("%q lasts %d s", text, seconds)
		}
		if statuses, err := parseStatuses(text); err == nil && len(statuses) > 4 {
			t.Errorf("%q: %v", text, statuses)
		}
		if targets, err := parseTargets("on", []string{text}); err == nil && targets != nil && len(targets.Nodes)+len(targets.Groups) == 0 && targets.Where == "" {
			t.Errorf("%q selects nothing", text)
		}
		if docs, err := s.decode("text", []byte(text)); err != nil && (err.Error() == "" || len(docs) > 0) {
			t.Errorf("%q: %d documents with %q", text, len(docs), err)
		}
	})
}
