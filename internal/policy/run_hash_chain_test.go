package policy

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"testing"

	"github.com/muster-fleet/muster/internal/testenv"
)

// TestEachFieldOfARunChangesItsLink changes each field of a compliance run, and expects a different hash in the
// hash chain. It also changes the link before the run.
func TestEachFieldOfARunChangesItsLink(t *testing.T) {
	base := LinkedRun{UnixMs: 1, Definition: [16]byte{2}, Components: 3, Codes: Codes{0x21, 0x03}}
	first := Link{}
	seen := map[Link]string{first.Next(&base): "base"}
	for name, change := range map[string]func(*LinkedRun){
		"time": func(r *LinkedRun) { r.UnixMs++ }, "definition": func(r *LinkedRun) { r.Definition[15]++ }, "enforced": func(r *LinkedRun) { r.Enforced = true },
		"ended": func(r *LinkedRun) { r.Ended = true }, "components": func(r *LinkedRun) { r.Components++ }, "codes": func(r *LinkedRun) { r.Codes = Codes{0x22, 0x03} },
	} {
		run := base
		change(&run)
		link := first.Next(&run)
		if other, known := seen[link]; known {
			t.Errorf("runs %s and %s have equal links", name, other)
		}
		if seen[link] = name; run.Equal(&base) != (name == "time") {
			t.Errorf("a run with another %s: equal is %v", name, run.Equal(&base))
		}
	}
	second := first.Next(&base)
	if link := second.Next(&base); seen[link] != "" {
		t.Error("the link does not depend on the one before it")
	}
}

// TestSignaturesCoverTheEnd changes each field of a hash chain's signed end, and expects the signature to
// become invalid. It also changes the key, and encodes a chain position.
func TestSignaturesCoverTheEnd(t *testing.T) {
	key := testenv.Value(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t)
	other := testenv.Value(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t)
	end := ChainEnd{Number: 300, UnixMs: 5, Link: Link{1}, Assignment: [32]byte{2}}
	signature := testenv.Value(end.Sign(key))(t)
	if !end.Verify(&key.PublicKey, &signature) || end.Verify(&other.PublicKey, &signature) {
		t.Error("the signature is not the key's")
	}
	for name, change := range map[string]func(*ChainEnd){
		"number": func(e *ChainEnd) { e.Number++ }, "time": func(e *ChainEnd) { e.UnixMs++ }, "link": func(e *ChainEnd) { e.Link[31]++ }, "assignment": func(e *ChainEnd) { e.Assignment[31]++ },
	} {
		changed := end
		if change(&changed); changed.Verify(&key.PublicKey, &signature) {
			t.Errorf("the signature is right with another %s", name)
		}
	}
	var read ChainEnd
	testenv.NoError(t, read.DecodePosition(end.AppendPosition(nil)))
	if read.Number != end.Number || read.Link != end.Link {
		t.Errorf("position %+v", read)
	}
}

// FuzzChainPosition decodes random bytes as the position of a hash chain, and expects the same bytes after
// encoding.
func FuzzChainPosition(f *testing.F) {
	f.Add((&ChainEnd{Number: 300, Link: Link{1}}).AppendPosition(nil))
	f.Add([]byte{1})
	f.Fuzz(func(t *testing.T, data []byte) {
		var end, again ChainEnd
		if end.DecodePosition(data) == nil && (again.DecodePosition(end.AppendPosition(nil)) != nil || again != end) {
			t.Errorf("%x is %+v, then %+v", data, end, again)
		}
	})
}

// BenchmarkSignedRun measures the cost of a run's signature for an agent and a server.
func BenchmarkSignedRun(b *testing.B) {
	key := testenv.Value(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(b)
	end := ChainEnd{Number: 300, UnixMs: 5, Link: Link{1}}
	signature := testenv.Value(end.Sign(key))(b)
	b.Run("sign", func(b *testing.B) {
		for b.Loop() {
			signature = testenv.Value(end.Sign(key))(b)
		}
	})
	b.Run("verify", func(b *testing.B) {
		for b.Loop() {
			if !end.Verify(&key.PublicKey, &signature) {
				b.Fatal("wrong signature")
			}
		}
	})
	b.Run("link of 1,100 components", func(b *testing.B) {
		run := LinkedRun{Components: 1100, Codes: NewCodes(1100)}
		for b.Loop() {
			end.Link = end.Link.Next(&run)
		}
	})
}
