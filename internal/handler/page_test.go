package handler

import (
	"os"
	"strings"
	"testing"
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
	want := before + begin + AnswersPage() + end + after
	if *update {
		if err := os.WriteFile(file, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	} else if want != string(page) {
		t.Errorf("%s is not what the code says: go test ./internal/handler -run TestAnswersPage -update", file)
	}
}
