package client

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// A backup leaves the context file in place and overwrites no other backup.
func TestBackUpContext(t *testing.T) {
	path := filepath.Join(t.TempDir(), "context.yaml")
	c := Context{Server: "https://muster.example.org:8443", Token: "one"}
	keep := func() string {
		t.Helper()
		if err := SaveContext(path, c); err != nil {
			t.Fatal(err)
		}
		aside, err := BackUpContext(path, c)
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range []string{path, aside} {
			if got, err := LoadContext(file); err != nil || got != c {
				t.Errorf("%s holds %+v, %v", file, got, err)
			}
		}
		return aside
	}
	first := keep()
	if want := path + ".muster.example.org-8443"; first != want {
		t.Errorf("kept as %s, want %s", first, want)
	}
	if again := keep(); again != first {
		t.Errorf("the same is kept twice: %s", again)
	}
	c.Token = "two"
	second := keep()
	if kept, err := LoadContext(first); err != nil || kept.Token != "one" {
		t.Errorf("the first login is %+v, %v", kept, err)
	}
	if got := ContextBackups(path, c.Server); !slices.Equal(got, []string{first, second}) {
		t.Errorf("kept are %v", got)
	}
	if info, err := os.Stat(second); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}
}

func TestFileNameOf(t *testing.T) {
	for server, want := range map[string]string{
		"https://host:8443/": "host-8443", "host": "host", "https://[::1]:8443/a/../b": "---1--8443-a-..-b", "": "earlier", "https://bücher.example": "b-cher.example",
	} {
		if got := fileNameOf(server); got != want {
			t.Errorf("%s: %s, want %s", server, got, want)
		}
	}
}
