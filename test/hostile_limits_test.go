//go:build linux

package test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	v1 "github.com/muster-fleet/muster/internal/api/v1"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/wire"
	"github.com/muster-fleet/muster/test/harness"
)

// A namespace at its limits is refused with a reason, counted, and seen in the status;
// another one does not feel it. What an operator changes is in force for sessions that
// are open.
func TestNamespaceLimits(t *testing.T) {
	h := newHostile(t, 6, nil)
	api := h.Client()
	calm := uuid.New()
	h.Apply(`
{apiVersion: muster/v1, kind: Namespace, metadata: {name: calm}}
---
{apiVersion: muster/v1, kind: Node, metadata: {name: calm01, namespace: calm}, spec: {uid: "` + calm.String() + `"}}
---
{apiVersion: muster/v1, kind: Check, metadata: {name: pulse, namespace: calm}, spec: {interval: 60s, command: "true", targets: {nodes: [calm01]}}}
`)
	quiet := h.startNeighbourAs(calm, 10*time.Millisecond)
	harness.Until(t, 30*time.Second, "the quiet one is acknowledged", func() (string, bool) { _, n := quiet.peekSlowest(); return fmt.Sprint(n), n > 20 })
	quiet.takeSlowest()
	harness.Until(t, 30*time.Second, "the quiet one again", func() (string, bool) { _, n := quiet.peekSlowest(); return fmt.Sprint(n), n > 100 })
	alone, _ := quiet.takeSlowest()

	loud := h.hello(1) // before the limit
	limit := func(yaml string) {
		h.Apply("{apiVersion: muster/v1, kind: Namespace, metadata: {name: load}, spec: {limits: {" + yaml + "}}}")
	}
	met := func(name string) float64 {
		return h.Metric("muster_limits_met_total", `namespace="load"`, `limit="`+name+`"`)
	}
	limit("resultsPerSec: 50, nodeResultsPerSec: 100000")

	// Five nodes send as fast as they may: a hundred times the limit.
	stop := make(chan struct{})
	defer close(stop)
	flood := func(e *attacker) {
		for first := uint64(1); ; first += 500 {
			b := &wire.Batch{StreamKey: goodKey, First: first}
			for range 500 {
				b.Signals = append(b.Signals, wire.Signal{Kind: wire.SignalKeepalive})
			}
			e.send(wire.AppendBatch(nil, b))
			select {
			case <-stop:
				return
			default:
			}
		}
	}
	go flood(loud)
	for i := 2; i < 6; i++ {
		go flood(h.hello(i))
	}
	harness.Until(t, 30*time.Second, "the namespace is at its limit", func() (string, bool) { n := met("namespace_rate"); return fmt.Sprint(n), n >= 3 })
	quiet.takeSlowest()
	harness.Until(t, 30*time.Second, "the quiet one meanwhile", func() (string, bool) { _, n := quiet.peekSlowest(); return fmt.Sprint(n), n > 200 })
	beside, n := quiet.takeSlowest()
	t.Logf("the slowest of the quiet one's results: %s alone, %s beside a namespace at its limit (%d)", alone, beside, n)
	if beside > max(10*alone, time.Second) {
		t.Errorf("the slowest result took %s, %s without the flood", beside, alone)
	}
	if out := h.CLI("status"); !strings.Contains(out, "namespace load met a limit") || !strings.Contains(out, "spec.limits.resultsPerSec") {
		t.Errorf("the status does not say so:\n%s", out)
	}

	// Each other limit: refused by its name, at once after it was set.
	for _, c := range []struct {
		limits, name, code string
		result             func(checks []model.ChunkID) wire.Signal
	}{
		{"outputBytes: 100", "output", "output", func(c []model.ChunkID) wire.Signal {
			return wire.ResultSignal(wire.Signal{Chunk: c[0]}, wire.Result{Output: []byte(strings.Repeat("x", 101))})
		}},
		{"statesPerNode: 1", "node_states", "node_limit", func(c []model.ChunkID) wire.Signal {
			return wire.ResultSignal(wire.Signal{Chunk: c[1]}, wire.Result{})
		}},
		{"states: 1", "namespace_states", "namespace_limit", func(c []model.ChunkID) wire.Signal {
			return wire.ResultSignal(wire.Signal{Chunk: c[1]}, wire.Result{})
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			limit(c.limits)
			was := met(c.name)
			var e *attacker
			var checks []model.ChunkID
			var key wire.StreamKey
			var next uint64
			begin := func() {
				e = h.hello(0)
				checks, key, next = e.readChecks(t), wire.StreamKey{Stream: wire.StreamID(time.Now().UnixNano())}, 1
			}
			begin()
			defer func() { e.Close() }()
			tried := 0
			harness.Until(t, 20*time.Second, "the refusal", func() (string, bool) {
				tried++
				b := &wire.Batch{StreamKey: key, First: next, Signals: []wire.Signal{
					wire.ResultSignal(wire.Signal{Chunk: checks[0]}, wire.Result{Output: []byte("x")}), c.result(checks)}}
				next += uint64(len(b.Signals))
				e.send(wire.AppendBatch(nil, b))
				for {
					kind, body, err := e.receive()
					if err != nil { // another limit of output ends sessions: agents hear of it at Welcome
						begin()
						return err.Error(), tried > 200
					}
					var ack wire.Ack
					if kind != wire.KindAck || ack.Decode(body) != nil {
						continue
					}
					for _, r := range ack.Refused {
						if r.Code == c.code && r.Reason != "" {
							return "", met(c.name) > was
						}
					}
					return fmt.Sprintf("%+v", ack), tried > 200
				}
			})
			if met(c.name) == was {
				t.Errorf("not counted")
			}
		})
	}
	t.Run("labels", func(t *testing.T) {
		limit("labels: 2")
		say := func(labels map[string]string) {
			harness.Until(t, 20*time.Second, "a session", func() (string, bool) {
				e, err := h.open(h.tls(0))
				if err != nil {
					return err.Error(), false
				}
				defer e.Close()
				e.send(wire.AppendHello(nil, &wire.Hello{Protocol: wire.Protocol, Node: nodeUID(0), Labels: labels}))
				kind, body, err := e.receive()
				return fmt.Sprintf("%d %q %v", kind, body, err), kind == wire.KindWelcome
			})
		}
		say(map[string]string{"env": "prod"})
		labelled := func() map[string]string {
			list, err := api.Nodes.States(t.Context(), v1.NodeFilter{Namespace: "load", Name: "load-00000", Limit: 1})
			if err != nil || len(list.Items) != 1 {
				t.Fatal(list, err)
			}
			return list.Items[0].Labels
		}
		harness.Until(t, 20*time.Second, "the label is known", func() (string, bool) { l := labelled(); return fmt.Sprint(l), l["env"] == "prod" })
		was := met("labels")
		say(map[string]string{"a": "1", "b": "2", "c": "3"})
		say(map[string]string{"bad\nname": "x"})
		if met("labels") != was+2 {
			t.Errorf("counted %v times", met("labels")-was)
		}
		l := labelled()
		if _, taken := l["b"]; taken || l["env"] != "prod" {
			t.Errorf("labels: %v", l)
		}
	})
	quiet.expectFast(10 * time.Second)
}
