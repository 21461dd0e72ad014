package outputs

import (
	"testing"

	"github.com/muster-fleet/muster/internal/model"
)

// BenchmarkGenerate generates one output of 100 bytes.
func BenchmarkGenerate(b *testing.B) {
	d := &Digits{Size: 100, Changes: 0.02}
	var out []byte
	b.ReportAllocs()
	for i := range b.N {
		out = d.Output(out[:0], i%2000, i%40, nil, uint64(i), d.Status(i%2000, i%40, nil, uint64(i), model.OK, false))
	}
}
