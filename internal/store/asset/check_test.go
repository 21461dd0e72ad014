package asset

import (
	"bytes"
	"encoding/hex"
	"path/filepath"
	"strings"
	"testing"

	"github.com/muster-fleet/muster/internal/journal/memfs"
	"github.com/muster-fleet/muster/internal/model"
)

// damage writes something else over an archive, or cuts it.
func (h *folderTest) damage(sum Sum, data []byte) {
	h.t.Helper()
	f, err := h.fs.Create(filepath.Join(folder, hex.EncodeToString(sum[:])))
	if err != nil {
		h.t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteAt(data, 0); err != nil {
		h.t.Fatal(err)
	}
}

// An archive that is damaged is as if it were not there from when that is found on, and the next upload takes its
// place; one that nobody has looked at is looked at then.
func TestReplaceDamagedArchive(t *testing.T) {
	data := archive('a')
	flipped := bytes.Clone(data)
	flipped[1000] ^= 1
	for what, bad := range map[string][]byte{"flipped": flipped, "cut": data[:1000], "empty": nil, "longer": append(bytes.Clone(data), 'x')} {
		h := newFolderTest(t, memfs.New())
		sum := h.put(data)
		if err := h.Check(sum); err != nil {
			t.Errorf("%s: %v", what, err)
		}
		h.damage(sum, bad)
		h.open()
		if _, ok := h.Size(sum); !ok {
			t.Errorf("%s: gone before anybody looked", what)
		}
		if err := h.Check(sum); model.ClassOf(err) != model.NotFound || !strings.Contains(err.Error(), "is damaged: its SHA-512 is") {
			t.Errorf("%s: %v", what, err)
		}
		if _, ok := h.Size(sum); ok || h.Damaged(sum) == nil {
			t.Errorf("%s: it is as if nothing were", what)
		}
		if _, err := h.Open(sum); model.ClassOf(err) != model.NotFound {
			t.Errorf("%s: %v", what, err)
		}
		h.put(data)
		if got := h.read(sum); !bytes.Equal(got, data) || h.Check(sum) != nil || h.Damaged(sum) != nil {
			t.Errorf("%s: not mended", what)
		}
		h.damage(sum, bad)
		h.open()
		h.put(data) // nobody has looked
		if got := h.read(sum); !bytes.Equal(got, data) {
			t.Errorf("%s: kept", what)
		}
		h.wantFiles(sum)
	}
}

// A file that somebody removed is not here; nor is one that is found damaged kept when nothing names it.
func TestMissingArchive(t *testing.T) {
	h := newFolderTest(t, memfs.New())
	sum := h.put(archive('a'))
	if err := h.fs.Remove(filepath.Join(folder, hex.EncodeToString(sum[:]))); err != nil {
		t.Fatal(err)
	}
	if err := h.Check(sum); err == nil || !strings.Contains(err.Error(), "its file is gone") {
		t.Errorf("%v", err)
	}
	h.put(archive('a'))
	h.damage(sum, nil)
	if err := h.Check(sum); err == nil {
		t.Error("it is whole")
	}
	h.hour = 2
	if n, err := h.Collect(func(Sum) bool { return false }); n != 1 || err != nil {
		t.Errorf("%d %v", n, err)
	}
	h.wantFiles()
}
