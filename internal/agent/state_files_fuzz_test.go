package agent

import (
	"crypto/ed25519"
	"encoding/json"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/muster-fleet/muster/internal/agent/link"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/pki"
	"github.com/muster-fleet/muster/internal/testenv"
	"github.com/muster-fleet/muster/internal/wire"
)

// FuzzState decodes random bytes as a stored session or assignment, and expects no change after encoding and decoding.
// Accepted content is encoded and read again.
func FuzzState(f *testing.F) {
	key := ed25519.NewKeyFromSeed(make([]byte, ed25519.SeedSize))
	id := &pki.Identity{Node: uuid.UUID{1}, ServerKey: key.Public().(ed25519.PublicKey)}
	f.Add(wire.AppendAssignment(nil, signAssignment(key, id, &wire.Assignment{
		Generation: wire.Generation{Epoch: 3, Revision: 9}, HasProperties: true,
		Properties: []wire.Property{{Name: "disk_warn", Value: []byte(`"15%"`)}},
		Add: []wire.AssignedDefinition{{ID: 17, Body: wire.AppendDefinition(nil, (&model.CheckDefinition{
			Definition: model.Definition{ID: 17, Unit: 5, Name: "disk"}, Command: &model.Command{Shell: "check_disk"}, Interval: time.Minute, FailAfter: 1, RecoverAfter: 1,
		}).ToDefinition())}},
	})))
	f.Add([]byte(`{"incarnation":7,"servers":["muster.example:8443","[::1]:8443"]}`))
	f.Add([]byte(`{"incarnation":-1}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		s := decodeSavedSession(data)
		kept, err := json.Marshal(s)
		testenv.NoError(t, err)
		if again := decodeSavedSession(kept); again.Incarnation != s.Incarnation || !slices.Equal(again.Servers, s.Servers) {
			t.Fatalf("kept %+v, read %+v", s, again)
		}
		check := func(data []byte) {
			held, err := decodeAssignment(data, id, wire.DecodeDefinition)
			if err != nil {
				return
			}
			again, err := decodeAssignment(encodeAssignment(held), id, wire.DecodeDefinition)
			if err != nil || again.Hash != held.Hash || again.Generation != held.Generation || len(again.Definitions) != len(held.Definitions) {
				t.Fatalf("kept %+v\nread %+v, %v", held, again, err)
			}
		}
		check(data)
		var a wire.Assignment
		if kind, body, err := wire.FrameKind(data); err == nil && kind == wire.KindAssignment && a.Decode(body) == nil {
			check(wire.AppendAssignment(nil, signAssignment(key, id, &a)))
		}
	})
}

// signAssignment signs a randomly generated assignment with the server's key, so that the agent accepts the signature.
func signAssignment(key ed25519.PrivateKey, id *pki.Identity, a *wire.Assignment) *wire.Assignment {
	var h link.Assignment
	for _, c := range a.Add {
		if definition, err := wire.DecodeDefinition(c.ID, c.Body); err == nil {
			h.Definitions = append(h.Definitions, definition)
		}
	}
	slices.SortFunc(h.Definitions, func(a, b *model.Definition) int { return int(int64(a.ID) - int64(b.ID)) })
	if a.HasProperties {
		h.Properties = a.Properties
	}
	a.Hash = wire.AssignmentHash(h.Definitions, h.Properties, nil)
	a.Signature = ed25519.Sign(key, wire.SignedBytes(id.Node, a.Generation, a.Hash))
	return a
}

// FuzzOneShots decodes random files of one-shot runs, and repeats the reports of the decoded runs without a panic.
func FuzzOneShots(f *testing.F) {
	f.Add([]byte(`{"7":{"work":"AAAA","changes":true,"startedAt":"2026-12-24T02:00:00Z","report":"CAE="}}`))
	f.Add([]byte("null"))
	c := &model.DirectiveDefinition{Components: []model.Component{{Name: "a"}}}
	f.Fuzz(func(t *testing.T, data []byte) {
		runs, err := decodeOneShots(data)
		if err == nil && runs == nil {
			t.Fatal("no runs without an error")
		}
		for _, run := range runs {
			if report := repeatedReport(c, run.Report, func(string) bool { return true }); report.Components != 1 {
				t.Fatalf("report %+v", report)
			}
		}
	})
}
