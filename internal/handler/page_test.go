package handler

import (
	"os"
	"strings"
	"testing"

	"github.com/muster-fleet/muster/internal/testenv"
)

// The table that people read is the one that the code goes by.
func TestAnswersPage(t *testing.T) {
	const file, begin, end = "../../docs/handlers.md", "-update -->\n", "<!-- answers end -->"
	page, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(page), begin)
	_, after, found := strings.Cut(rest, end)
	if !ok || !found {
		t.Fatalf("%s has no place for the table", file)
	}
	testenv.Golden(t, file, before+begin+AnswersPage()+end+after)
}
