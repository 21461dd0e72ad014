package scenario

import (
	"testing"

	"github.com/muster-fleet/muster/internal/model"
)

// TestFilesAreTheLeast expects the smallest limit of open files with which loader and server hold the connections.
func TestFilesAreTheLeast(t *testing.T) {
	for _, own := range []bool{false, true} {
		for _, n := range []int{1, 50, 312, 448, 824, 900, 4000, 7118, 7119, 18_926, 18_927, 100_000_000} {
			files := Files(n, own)
			if Connections(files, own) < n || Connections(files-1, own) >= n {
				t.Errorf("own server %t: %d connections need %d files, of which %d are for them, of one less %d", own, n, files,
					Connections(files, own), Connections(files-1, own))
			}
			if own && model.MaxConnections(files) <= n {
				t.Errorf("a server lets %d in with %d files, and has to let %d agents in and people", model.MaxConnections(files), files, n)
			}
		}
	}
	// A server keeps 1,024 of 20,000 files for itself, and a loader 200.
	if loader, both := Connections(20_000, false), Connections(20_000, true); loader != 19_800 || both != 18_926 {
		t.Errorf("%d agents of a loader alone, %d beside its server", loader, both)
	}
}

// TestQuickLeavesTheServerItsFiles expects that a quick form has no more connections than its own server accepts.
func TestQuickLeavesTheServerItsFiles(t *testing.T) {
	for _, name := range Names() {
		s, err := Load(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, files := range []int{500, 1024, 4096, 20_000, 65_536} {
			q := s.Quick(Machine{Cores: 64, Memory: 1 << 40, Files: files})
			if need := Files(q.Nodes(""), true); need > files {
				t.Errorf("%s with %d files: %d connections need %d", name, files, q.Nodes(""), need)
			}
		}
	}
}
