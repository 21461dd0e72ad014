package prep

import (
	"testing"

	"github.com/muster-fleet/muster/internal/item"
	"github.com/muster-fleet/muster/internal/model"
	"github.com/muster-fleet/muster/internal/testenv"
)

func TestMultiplier(t *testing.T) {
	for _, c := range []struct {
		typ      item.Type
		factor   string
		in, want item.Value
	}{
		{item.Float, "8", item.FromText("2.5"), item.FromFloat(20)},
		{item.Unsigned, "8", item.FromText("3.7"), item.FromUnsigned(24)},
		{item.Unsigned, "0.5", item.FromUnsigned(7), item.FromUnsigned(3)},
		{item.Unsigned, "2", item.FromUnsigned(1 << 63), item.FromUnsigned(0)},
		{item.Text, "2", item.FromText(" 21 "), item.FromText("42")},
	} {
		chain, err := Compile([]model.Step{{Name: "multiplier", Parameters: []string{c.factor}}}, c.typ)
		testenv.NoError(t, err)
		got, err := chain.Run(nil, item.Sample{Value: c.in})
		testenv.NoError(t, err)
		if got != c.want {
			t.Errorf("%v × %s = %v, expected %v", c.in, c.factor, got, c.want)
		}
	}
}
