package sqldb

import "strings"

// Marks returns the placeholders of a list of n values; for an empty list NULL, which equals
// nothing.
func Marks(n int) string {
	if n == 0 {
		return "NULL"
	}
	return "?" + strings.Repeat(", ?", n-1)
}

// AppendTexts appends texts to the arguments of a query.
func AppendTexts(args []any, texts []string) []any {
	for _, text := range texts {
		args = append(args, text)
	}
	return args
}
