package sensuwire

import (
	"bytes"
	"encoding/hex"
	"reflect"
	"testing"

	"github.com/muster-fleet/muster/internal/testenv"
)

// beside is a request and an answer with what lies beside them.
func eventWithExtras() (asked *Ask, result *Event) {
	asked, _, result = fixed()
	asked.Hooks = []Hook{
		{Name: "ps", When: []string{"critical", "127"}, Command: "ps aux", Timeout: 10},
		{Name: "tell", When: []string{"non-zero"}, Command: "cat", Timeout: 1, Stdin: true},
	}
	asked.Assets = []Asset{{Name: "tools", Namespace: "default", URL: "https://here:8081/assets/7/ab", SHA512: "ab", Headers: map[string]string{"Authorization": "Bearer x"}}}
	result.Hooks = []HookResult{{Name: "ps", Status: 0, Output: "PID\n\"1\"", Duration: 0.5}, {Name: "tell", Status: -1, Output: "no"}}
	result.Points = []Point{{Name: "used", Value: 95.5, Time: 1795236430, Tags: map[string]string{"mount": "/", "unit": "%"}}, {Name: "free", Value: -1}}
	return asked, result
}

// The bytes of what is beside a command and beside an output, and what a backend reads of them.
func TestExtrasGolden(t *testing.T) {
	for name, c := range codecs() {
		asked, result := eventWithExtras()
		request := c.AppendAsk(nil, asked)
		r, err := c.ParseRequest(request)
		if err != nil || r.Issued != asked.Issued {
			t.Fatalf("%s: %v %+v", name, err, r)
		}
		result.Check = r.Check
		answer := c.AppendEvent(nil, result)
		var s Received
		if err := c.ReadEvent(answer, &s); err != nil || !s.HasHooks() {
			t.Fatalf("%s: %v %+v", name, err, s)
		}
		if hooks, err := s.ReadHooks(16); err != nil || !reflect.DeepEqual(hooks, result.Hooks) {
			t.Errorf("%s: %v %+v", name, err, hooks)
		}
		if hooks, err := s.ReadHooks(1); err != nil || len(hooks) != 1 {
			t.Errorf("%s: %v %+v", name, err, hooks)
		}
		points := func(s *Received) (list []Point) {
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
		var only Received
		if err := c.ReadEvent(measured, &only); err != nil || only.HasCheck || only.HasHooks() || !reflect.DeepEqual(points(&only), result.Points) {
			t.Errorf("%s: %v %+v", name, err, only)
		}
		var text bytes.Buffer
		for _, body := range [][]byte{request, answer, measured} {
			if name == "protobuf" {
				body = []byte(hex.EncodeToString(body))
			}
			text.Write(append(body, '\n'))
		}
		file := "testdata/extras." + name
		testenv.Golden(t, file, text.Bytes())
	}
}

func TestTimesOfPoints(t *testing.T) {
	for _, n := range []int64{1795236430, 1795236430_000, 1795236430_000_000, 1795236430_000_000_000} {
		p := Point{Time: n}
		if got := p.At().Unix(); got != 1795236430 {
			t.Errorf("%d is %d", n, got)
		}
	}
	if !(&Point{}).At().IsZero() {
		t.Error("no time is one")
	}
}
