package trigger

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/muster-fleet/muster/internal/item"
	"github.com/muster-fleet/muster/internal/testenv"
)

// start is the time of the tests' time: 2024-02-05 12:00:00 UTC, a Monday.
const start = 1707134400 * int64(time.Second)

// testItems are the items of tests: the name of the key is that of the type, with a number behind.
var testItems = []string{"float", "unsigned", "text", "log", "boolean", "float2"}

// testScope knows testItems and the macros {$A} = 5, {$P} = 5m and {$T} = text.
var testScope = Scope{
	Item: func(host, key string) (int, item.Type, error) {
		for i, name := range testItems {
			if name == key {
				t, _ := item.ParseType(strings.TrimRight(name, "2"))
				return i, t, nil
			}
		}
		return 0, 0, fmt.Errorf("no item has the key %s", key)
	},
	Macro: func(macro string) (string, error) {
		if v, ok := map[string]string{"{$A}": "5", "{$P}": "5m", "{$T}": "text"}[macro]; ok {
			return v, nil
		}
		return "", errors.New("no macro " + macro)
	},
}

func compileText(t testing.TB, expression string) *Program {
	t.Helper()
	e, err := Parse(expression)
	testenv.NoError(t, err)
	p, err := Compile(e, testScope)
	testenv.NoError(t, err)
	return p
}

// valueOf converts a Go value to that of an item.
func valueOf(v any) item.Value {
	switch v := v.(type) {
	case float64:
		return item.FromFloat(v)
	case int:
		return item.FromUnsigned(uint64(v))
	case uint64:
		return item.FromUnsigned(v)
	case string:
		return item.FromText(v)
	}
	panic("BUG: no item value")
}

// feed adds values, one each minute; the last one comes at start.
func feed(p *Program, w *Windows, key string, values ...any) {
	position, _, _ := testScope.Item("", key)
	for i, v := range values {
		p.Add(w, position, item.Sample{At: start - int64(len(values)-1-i)*int64(time.Minute), Value: valueOf(v)})
	}
}

func TestEval(t *testing.T) {
	for _, c := range []struct {
		expression string
		want       Result
	}{
		{"last(//float)>4", True},
		{"last(//float)>4 and last(//unsigned)=7", True},
		{"avg(//float,3m)=4", True},
		{"sum(//unsigned,#2)=13", True},
		{"min(//float,5m)=2.5", True},
		{"max(//unsigned,5m)<7", False},
		{"last(//float2)>1", Unknown},
		{"last(//float2)>1 or last(//float)=5.5", True},
		{"count(//float,5m)=3", True},
		{"find(//text,,,\"lo w\")=1", True},
		{"nodata(//float,5m)=0", True},
	} {
		p := compileText(t, c.expression)
		w := p.New(start - int64(time.Hour))
		feed(p, w, "float", 2.5, 4.0, 5.5)
		feed(p, w, "unsigned", 5, 6, 7)
		feed(p, w, "text", "hello", "hello world")
		got, reason := p.Eval(w, start)
		if got != c.want || (reason == "") != (got != Unknown) {
			t.Errorf("%s: %v %q", c.expression, got, reason)
		}
	}
}
