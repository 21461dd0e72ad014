package cursor

import (
	"encoding/hex"
	"errors"
	"reflect"
	"testing"

	"github.com/muster-fleet/muster/internal/journal"
	"github.com/muster-fleet/muster/internal/journal/memfs"
)

var some = []Cursor{
	{"default", "lake", "lake.example.org:9000", journal.Position{Log: 7, Number: 1234567}, 0},
	{"ops", "copy", "[::1]:9", journal.Position{Log: 1 << 63, Number: 1}, 99},
}

// The bytes stay what they are: a newer release reads what this one wrote.
const golden = "4d5553544355525301000000ae397b90" +
	"0764656661756c74046c616b65156c616b652e6578616d706c652e6f72673a39303030" + "0700000000000000" + "87d6120000000000" + "0000000000000000" +
	"036f707304636f7079075b3a3a315d3a39" + "0000000000000080" + "0100000000000000" + "6300000000000000"

func TestGoldenBytes(t *testing.T) {
	data := Append(nil, some)
	if got := hex.EncodeToString(data); got != golden {
		t.Errorf("wrote\n%s\nwant\n%s", got, golden)
	}
	if list, err := Parse(data); err != nil || !reflect.DeepEqual(list, some) {
		t.Errorf("read back %+v, %v", list, err)
	}
	data[8] = 2
	if _, err := Parse(data); err == nil || errors.Is(err, ErrDamaged) {
		t.Errorf("of another version: %v", err)
	}
}

func TestSaveAndLoad(t *testing.T) {
	fs := memfs.New()
	if list, err := Load(fs, "d"); err != nil || list != nil {
		t.Fatalf("of no file: %v, %v", list, err)
	}
	if err := fs.MkdirAll("d"); err != nil {
		t.Fatal(err)
	}
	for n := range 3 {
		if err := Save(fs, "d", some[:n]); err != nil {
			t.Fatal(err)
		}
		if list, err := Load(fs, "d"); err != nil || len(list) != n {
			t.Fatalf("%d saved, read %v, %v", n, list, err)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add(Append(nil, some))
	f.Add([]byte(magic))
	f.Fuzz(func(t *testing.T, data []byte) {
		list, err := Parse(data)
		if err != nil {
			return
		}
		if again, err := Parse(Append(nil, list)); err != nil || !reflect.DeepEqual(again, list) {
			t.Fatalf("%+v became %+v, %v", list, again, err)
		}
	})
}
