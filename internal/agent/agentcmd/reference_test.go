package agentcmd

import (
	"flag"
	"os"
	"testing"
)

var update = flag.Bool("update", false, "write the reference page")

//go:generate go test . -run TestReferencePageIsUpToDate -update

const referencePage = "../../../docs/reference/agent.md"

func TestReferencePageIsUpToDate(t *testing.T) {
	if *update {
		if err := os.WriteFile(referencePage, []byte(Reference()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	page, err := os.ReadFile(referencePage)
	if err != nil || string(page) != Reference() {
		t.Fatalf("%s is not what the code says (%v): run make docs", referencePage, err)
	}
}
