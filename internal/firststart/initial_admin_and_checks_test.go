package firststart

import (
	"bytes"
	"os"
	"path/filepath"
	"runtime/metrics"
	"testing"
	"time"

	"github.com/muster-fleet/muster/internal/access"
	"github.com/muster-fleet/muster/internal/kind"
	"github.com/muster-fleet/muster/internal/store/intentdb"
	"github.com/muster-fleet/muster/internal/testenv"
)

// TestDefaultChecksEqualExample expects the default checks of muster up to equal the example in the documentation
func TestDefaultChecksEqualExample(t *testing.T) {
	const example = "../../docs/examples/starter.yaml"
	got, err := os.ReadFile(example)
	if err != nil || !bytes.Equal(got, starter) {
		t.Errorf("%s is not internal/firststart/starter.yaml (%v): copy one over the other", example, err)
	}
}

// The first start returns the memory of the password's hash. A later start hashes nothing and forces no collection.
func TestFirstStartReturnsMemoryOfHash(t *testing.T) {
	store := testenv.Value(intentdb.Open(t.Context(), filepath.Join(t.TempDir(), "intent.db"), kind.All(), time.Now))(t)
	defer store.Close()
	users := access.NewService(access.Options{Store: store, Now: time.Now})
	testenv.NoError(t, users.Load(t.Context()))
	for _, want := range []uint64{1, 0} {
		before := forcedCollections()
		testenv.Value(CreateAdmin(t.Context(), users, ""))(t)
		if got := forcedCollections() - before; got != want {
			t.Errorf("%d forced collections, want %d", got, want)
		}
	}
}

// forcedCollections returns the number of forced garbage collections of the process.
func forcedCollections() uint64 {
	sample := []metrics.Sample{{Name: "/gc/cycles/forced:gc-cycles"}}
	metrics.Read(sample)
	return sample[0].Value.Uint64()
}
