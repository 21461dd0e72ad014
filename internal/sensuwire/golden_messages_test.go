package sensuwire

import (
	"bytes"
	"cmp"
	"encoding/hex"
	"encoding/json"
	"reflect"
	"slices"
	"testing"
	"unicode/utf8"

	"github.com/muster-fleet/muster/internal/testenv"
)

// codecs returns the protobuf codec and the JSON codec by name.
func codecs() map[string]Codec { return map[string]Codec{"protobuf": Protobuf, "json": JSON} }

// sampleMessages returns a check request, a keepalive and a check result for golden files.
func sampleMessages() (asked *CheckRequest, alive, result *Event) {
	x := &Entity{Name: "web-00000", Namespace: "default", User: "agent", Subscriptions: []string{"web", "entity:web-00000"}, Labels: map[string]string{"class": "web", "env": "test"}}
	id := [16]byte{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16}
	return &CheckRequest{Name: "disk", Namespace: "default", Command: "check_disk -w 5", Env: []string{"A=1"}, Interval: 10, Timeout: 30, Issued: 1795236429},
		&Event{ID: id, Timestamp: 1795236428, Sequence: 1, Entity: x, Interval: 20, Warning: 120},
		&Event{ID: id, Timestamp: 1795236430, Sequence: 7, Entity: x, Issued: 1795236429, Executed: 1795236430, Duration: 0.25, Status: 2, Output: "CRITICAL - \"no\"\nmore"}
}

// messageLine returns an encoded message as one line of a golden file.
func messageLine(c Codec, message []byte) string {
	if c == Protobuf {
		return hex.EncodeToString(message) + "\n"
	}
	return string(message) + "\n"
}

// TestMessagesMatchGoldenBytes compares each kind of message in both encodings with golden bytes. It also decodes each
// message again.
func TestMessagesMatchGoldenBytes(t *testing.T) {
	for name, c := range codecs() {
		asked, alive, result := sampleMessages()
		request := c.AppendRequest(nil, asked)
		r, err := c.ParseRequest(request)
		if err != nil || r.Name != "disk" || r.Interval != 10 || r.Issued != 1795236429 || r.Key() != "disk" {
			t.Fatalf("%s: %v %+v", name, err, r)
		}
		result.Check = r.Check
		told := c.AppendConfig(nil, &Config{Name: "web-00000", Namespace: "default", Subscriptions: []string{"web"}})
		if got, err := c.ParseConfig(told); err != nil || got.Name != "web-00000" || len(got.Subscriptions) != 1 {
			t.Errorf("%s: %v %+v", name, err, got)
		}
		testenv.Golden(t, "testdata/messages."+name, TypeKeepalive+"\n"+messageLine(c, c.AppendEvent(nil, alive))+
			TypeEvent+"\n"+messageLine(c, c.AppendEvent(nil, result))+
			TypeCheckRequest+"\n"+messageLine(c, request)+TypeEntityConfig+"\n"+messageLine(c, told))
	}
}

// TestBackendReadsEventsOfAgents encodes events as an agent does, and expects a backend to decode the same values. It
// tests both encodings.
func TestBackendReadsEventsOfAgents(t *testing.T) {
	for name, c := range codecs() {
		asked, alive, result := sampleMessages()
		r := testenv.Value(c.ParseRequest(c.AppendRequest(nil, asked)))(t)
		result.Check = r.Check
		var s ReceivedEvent
		if err := c.ReadEvent(c.AppendEvent(nil, result), &s); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if string(s.Entity) != "web-00000" || string(s.Namespace) != "default" || !s.HasCheck || s.Metrics || string(s.Check) != "disk" || len(s.Proxy) != 0 ||
			s.Duration != 0.25 || s.Issued != 1795236429 || s.Executed != 1795236430 || s.Status != 2 || string(s.Output) != result.Output || s.Timeout != 30 {
			t.Errorf("%s: %+v, output %q", name, s, s.Output)
		}
		sum := s.Sum
		if err := c.ReadEvent(c.AppendEvent(nil, alive), &s); err != nil || string(s.Check) != "keepalive" || s.Interval != 20 || s.Timeout != 120 {
			t.Errorf("%s: %v %+v", name, err, s)
		}
		if s.Sum != sum {
			t.Errorf("%s: the sum of a machine depends on the time of the event", name)
		}
		m, err := s.ReadMachine()
		want := &Machine{Name: "web-00000", Namespace: "default", Class: "agent", Labels: map[string]string{"class": "web", "env": "test"},
			Subscriptions: []string{"web", "entity:web-00000"}, AgentVersion: "6.9.2", User: "agent", Redact: redactedWords(),
			System: System{Hostname: "web-00000", OS: "linux", Platform: "debian", PlatformFamily: "debian", PlatformVersion: "12.5", Arch: "amd64", FloatType: "hardfloat",
				Network: Network{[]Interface{{Name: "eth0", MAC: "02:42:ac:11:00:02", Addresses: []string{"172.17.0.2/16"}}}}}}
		if err != nil || !reflect.DeepEqual(m, want) {
			t.Errorf("%s: %v\n%+v\nwant\n%+v", name, err, m, want)
		}
		alive.Entity.Deregister, alive.Entity.Deregistration = true, "CMDB"
		if err := c.ReadEvent(c.AppendEvent(nil, alive), &s); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if m, err := s.ReadMachine(); err != nil || !m.Deregister || m.Deregistration.Handler != "CMDB" {
			t.Errorf("%s: %v\n%+v", name, err, m)
		}
		sum = s.Sum
		alive.Entity.KeepaliveHandlers, alive.Pipelines = []string{"slack", "CMDB"}, []string{"alerts", "more"}
		if err := c.ReadEvent(c.AppendEvent(nil, alive), &s); err != nil || s.Sum == sum {
			t.Errorf("%s: the sum of a machine does not change with its handlers: %v", name, err)
		}
		if m, err := s.ReadMachine(); err != nil || !reflect.DeepEqual(m.KeepaliveHandlers, alive.Entity.KeepaliveHandlers) {
			t.Errorf("%s: %v\n%+v", name, err, m)
		}
		if names, err := s.ReadPipelines(); err != nil || !reflect.DeepEqual(names, alive.Pipelines) {
			t.Errorf("%s: %v\n%q", name, err, names)
		}
		sum = s.Sum
		alive.Pipelines = alive.Pipelines[:1]
		if err := c.ReadEvent(c.AppendEvent(nil, alive), &s); err != nil || s.Sum == sum {
			t.Errorf("%s: the sum does not change with the event's pipelines: %v", name, err)
		}
		sum = s.Sum
		alive.Entity.Labels["env"] = "prod"
		if err := c.ReadEvent(c.AppendEvent(nil, alive), &s); err != nil || s.Sum == sum {
			t.Errorf("%s: the sum of a machine does not change with its labels: %v", name, err)
		}
	}
}

// TestCheckNumbersAreUnique expects all fields of a Check to have different protobuf numbers. The fields of a
// CheckConfig are copied into the Check first.
func TestCheckNumbersAreUnique(t *testing.T) {
	taken := map[int]bool{22: true, 23: true, 25: true, 26: true, 28: true, 45: true}
	for n := 1; n < 60; n++ {
		to := int(checkFieldNumber(uint64(n)))
		if to == 0 {
			continue
		}
		if taken[to] {
			t.Errorf("%d moves to %d, which is taken", n, to)
		}
		taken[to] = true
	}
}

// FuzzMessage decodes random messages in protobuf and JSON, and expects each decoded message to have its
// required name. They must respect the limits.
func FuzzMessage(f *testing.F) {
	asked, alive, result := sampleMessages()
	for _, c := range codecs() {
		r := testenv.Value(c.ParseRequest(c.AppendRequest(nil, asked)))(f)
		result.Check = r.Check
		f.Add(c.AppendRequest(NewMessage(TypeCheckRequest)[14:], asked))
		secret := *asked
		secret.Secrets = []string{"A=1", "B=", "no sign"}
		f.Add(c.AppendRequest([]byte(TypeCheckRequest+"\n"), &secret))
		f.Add(c.AppendConfig([]byte(TypeEntityConfig+"\n"), &Config{Name: "web", Subscriptions: []string{"a"}}))
		f.Add(c.AppendEvent([]byte(TypeEvent+"\n"), result))
		f.Add(c.AppendEvent([]byte(TypeKeepalive+"\n"), alive))
	}
	for _, c := range codecs() {
		asked, result := sampleHooksAndAssets()
		r := testenv.Value(c.ParseRequest(c.AppendRequest(nil, asked)))(f)
		result.Check = r.Check
		f.Add(c.AppendEvent([]byte(TypeEvent+"\n"), result))
	}
	f.Add([]byte("event\n{\"entity\":{\"metadata\":{\"name\":\"\\u0061\"}},\"check\":null,\"metrics\":{\"points\":[]}}"))
	f.Fuzz(func(t *testing.T, message []byte) {
		_, body, err := Parse(message)
		if err != nil {
			return
		}
		for _, c := range codecs() {
			_, _ = c.ParseConfig(body)
			var s ReceivedEvent
			if c.ReadEvent(body, &s) == nil {
				if len(s.Entity) == 0 || s.HasCheck && len(s.Check) == 0 {
					t.Errorf("an event without entity or without check was accepted: %+v", s)
				}
				_, _ = s.ReadMachine()
				_, _ = s.ReadRules()
				_, _ = s.ReadPipelines()
				if hooks, err := s.ReadHooks(3); err == nil && len(hooks) > 3 {
					t.Errorf("%d hooks", len(hooks))
				}
				_ = s.ReadPoints(func(p *Point) { _ = p.At() })
			}
			r, err := c.ParseRequest(body)
			if err != nil {
				continue
			}
			if r.Name == "" {
				t.Error("a check without a name")
			}
			_, _, result := sampleMessages()
			result.Check = r.Check
			if len(c.AppendEvent(nil, result)) <= len(result.Output) {
				t.Error("an event without what it says")
			}
		}
	})
}

// FuzzMembers scans random JSON, and expects the same members that encoding/json finds.
func FuzzMembers(f *testing.F) {
	f.Add([]byte(`{"a":1,"b":[1,{"c":"]}\"\\"}], "d" : null ,"e":{}, "f":-1.5e3,"g":true}`))
	f.Add([]byte(`{}`))
	f.Add([]byte(`{"a":"\\"}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		found := map[string]json.RawMessage{}
		ok := forEachMember(data, func(key, raw []byte) bool {
			found[fieldValue{codec: JSON, raw: []byte(`"` + string(key) + `"`)}.text()] = raw
			return true
		})
		var want map[string]json.RawMessage
		if !utf8.Valid(data) || json.Unmarshal(data, &want) != nil || want == nil {
			return
		}
		if !ok || len(found) != len(want) {
			t.Fatalf("%s: %v, %d members, want %d", data, ok, len(found), len(want))
		}
		for key, value := range want {
			if !bytes.Equal(found[key], bytes.TrimSpace(value)) {
				t.Errorf("%s: member %q is %s, want %s", data, key, found[key], value)
			}
		}
	})
}

// BenchmarkReadEvent measures how fast an event is decoded in protobuf and JSON.
func BenchmarkReadEvent(b *testing.B) {
	asked, _, result := sampleMessages()
	for name, c := range codecs() {
		b.Run(name, func(b *testing.B) {
			r := testenv.Value(c.ParseRequest(c.AppendRequest(nil, asked)))(b)
			result.Check = r.Check
			body := c.AppendEvent(nil, result)
			var s ReceivedEvent
			b.ReportAllocs()
			b.SetBytes(int64(len(body)))
			for b.Loop() {
				testenv.NoError(b, c.ReadEvent(body, &s))
			}
		})
	}
}

// TestFieldTablesAreSorted expects the tables of message fields to be sorted by tag, because decoding needs the order.
func TestFieldTablesAreSorted(t *testing.T) {
	assertSorted(t, metaFields)
	assertSorted(t, requestFields)
	assertSorted(t, configFields)
	assertSorted(t, receivedFields)
	assertSorted(t, receivedEntityFields)
	assertSorted(t, receivedCheckFields)
	assertSorted(t, ruleFields)
	assertSorted(t, hookResultFields)
	assertSorted(t, pointFields)
	assertSorted(t, metricsFields)
	assertSorted(t, machineFields)
	assertSorted(t, machineMetaFields)
	assertSorted(t, systemFields)
}

// assertSorted fails the test if the fields of a table are not sorted by tag.
func assertSorted[T any](t *testing.T, fields []field[T]) {
	t.Helper()
	if !slices.IsSortedFunc(fields, func(a, b field[T]) int { return cmp.Compare(a.tag, b.tag) }) {
		t.Errorf("table of %T", fields)
	}
}

// sampleHooksAndAssets returns a request with hooks and assets, and its result with hooks and metrics.
func sampleHooksAndAssets() (asked *CheckRequest, result *Event) {
	asked, _, result = sampleMessages()
	asked.Hooks = []Hook{
		{Name: "ps", When: []string{"critical", "127"}, Command: "ps aux", Timeout: 10},
		{Name: "tell", When: []string{"non-zero"}, Command: "cat", Timeout: 1, Stdin: true},
	}
	asked.Assets = []Asset{{Name: "tools", Namespace: "default", URL: "https://here:8081/assets/7/ab", SHA512: "ab", Headers: map[string]string{"Authorization": "Bearer x"}}}
	asked.HookAssets = asked.Assets
	result.Hooks = []HookResult{{Name: "ps", Status: 0, Output: "PID\n\"1\"", Duration: 0.5}, {Name: "tell", Status: -1, Output: "no"}}
	result.Points = []Point{{Name: "used", Value: 95.5, Time: 1795236430, Tags: map[string]string{"mount": "/", "unit": "%"}}, {Name: "free", Value: -1}}
	return asked, result
}

// TestHooksAssetsAndMetricsMatchGoldenBytes compares encoded hooks, assets and metrics with golden bytes, and decodes
// the bytes again.
func TestHooksAssetsAndMetricsMatchGoldenBytes(t *testing.T) {
	for name, c := range codecs() {
		asked, result := sampleHooksAndAssets()
		request := c.AppendRequest(nil, asked)
		r, err := c.ParseRequest(request)
		if err != nil || r.Issued != asked.Issued {
			t.Fatalf("%s: %v %+v", name, err, r)
		}
		result.Check = r.Check
		answer := c.AppendEvent(nil, result)
		var s ReceivedEvent
		if err := c.ReadEvent(answer, &s); err != nil || !s.HasHooks() {
			t.Fatalf("%s: %v %+v", name, err, s)
		}
		if hooks, err := s.ReadHooks(16); err != nil || !reflect.DeepEqual(hooks, result.Hooks) {
			t.Errorf("%s: %v %+v", name, err, hooks)
		}
		if hooks, err := s.ReadHooks(1); err != nil || len(hooks) != 1 {
			t.Errorf("%s: %v %+v", name, err, hooks)
		}
		points := func(s *ReceivedEvent) (list []Point) {
			if err := s.ReadPoints(func(p *Point) { list = append(list, *p) }); err != nil {
				t.Errorf("%s: %v", name, err)
			}
			return list
		}
		if got := points(&s); !s.Metrics || !reflect.DeepEqual(got, result.Points) {
			t.Errorf("%s: %+v", name, got)
		}
		result.MetricsOnly = true
		measured := c.AppendEvent(nil, result)
		var only ReceivedEvent
		if err := c.ReadEvent(measured, &only); err != nil || only.HasCheck || only.HasHooks() || !reflect.DeepEqual(points(&only), result.Points) {
			t.Errorf("%s: %v %+v", name, err, only)
		}
		testenv.Golden(t, "testdata/extras."+name, messageLine(c, request)+messageLine(c, answer)+messageLine(c, measured))
	}
}

// TestPointTimesInAnyUnit expects the right times for metric points with timestamps in s, ms, µs and ns.
func TestPointTimesInAnyUnit(t *testing.T) {
	for _, n := range []int64{1795236430, 1795236430_000, 1795236430_000_000, 1795236430_000_000_000} {
		p := Point{Time: n}
		if got := p.At().Unix(); got != 1795236430 {
			t.Errorf("%d is %d", n, got)
		}
	}
	if !(&Point{}).At().IsZero() {
		t.Error("a point without a time has a time")
	}
}

// TestRequestSecretsMatchGoldenBytes compares a request that contains secrets with golden bytes. The event of the
// request repeats none of them.
func TestRequestSecretsMatchGoldenBytes(t *testing.T) {
	for name, c := range codecs() {
		asked, _, result := sampleMessages()
		asked.Secrets = []string{"DB_PASSWORD=it's \"<quoted>\" = ü", "TOKEN=two\nlines"}
		request := c.AppendRequest(nil, asked)
		r, err := c.ParseRequest(request)
		if err != nil || r.Name != "disk" || r.Issued != asked.Issued || !reflect.DeepEqual(r.Secrets, asked.Secrets) {
			t.Fatalf("%s: %v %+v", name, err, r)
		}
		result.Check = r.Check
		if answer := c.AppendEvent(nil, result); bytes.Contains(answer, []byte("PASSWORD")) {
			t.Errorf("%s: the event has %q", name, answer)
		}
		bare := *asked
		bare.Secrets = nil
		if in := c.AppendConstantPart(nil, asked); !bytes.Equal(in, c.AppendConstantPart(nil, &bare)) {
			t.Errorf("%s: the stable part of a check_request has secrets", name)
		}
		testenv.Golden(t, "testdata/secrets."+name, messageLine(c, request))
	}
}
