package chart

import (
	"fmt"
	"html/template"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestAForestHasRoomForAll(t *testing.T) {
	for _, largest := range []float64{0, 0.01, 0.1, 0.3, 0.9, 4, 12, 99, 1e6} {
		f := NewForest(largest)
		changes := []float64{-1, -largest / 2, -0.01, 0, 0.01, largest / 2, largest}
		slices.Sort(changes)
		last := -1.0
		for _, c := range changes {
			at := f.place(c)
			if at < last || at < 2 || at > 98 {
				t.Errorf("up to %g: %g lies at %g, after %g", largest, c, at, last)
			}
			last = at
		}
		if at := f.place(0); at != 50 {
			t.Errorf("up to %g: nought lies at %g", largest, at)
		}
		if n := len(slices.DeleteFunc(f.Ticks(), func(l Label) bool { return l.Text == "" })); n < 3 {
			t.Errorf("up to %g: %d divisions have words", largest, n)
		}
		words := slices.DeleteFunc(f.Ticks(), func(l Label) bool { return l.Text == "" })
		slices.SortFunc(words, func(a, b Label) int { return int(100 * (a.At - b.At)) })
		for i, l := range words[1:] {
			if need := 2.8 * float64(utf8.RuneCountInString(l.Text+words[i].Text)) / 2; l.At-words[i].At < need {
				t.Errorf("up to %g: %s at %g covers %s at %g", largest, l.Text, l.At, words[i].Text, words[i].At)
			}
		}
	}
}

func TestTemplateTakesAForest(t *testing.T) {
	set := template.Must(template.New("").Parse(Template()))
	var b strings.Builder
	f := NewForest(0.2)
	row := f.Draw(Sample{0, -0.1, 0.1, []float64{-0.1, 0, 0.1}}, Sample{0.2, 0.2, 0.2, nil}, "bad", "a <b>")
	if err := set.ExecuteTemplate(&b, "forest", row); err != nil {
		t.Fatal(err)
	}
	if err := set.ExecuteTemplate(&b, "forest-axis", f.Ticks()); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`aria-label="a &lt;b&gt;"`, `class="grid zero"`, `class="bad"`, `cx="50%"`, fmt.Sprintf(`cx="%v%%"`, f.place(0.2)), ">&#43;10%<"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no %s in %s", want, b.String())
		}
	}
}
