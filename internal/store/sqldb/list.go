package sqldb

import "strings"

// Marks are the placeholders of a list of n values; NULL, which nothing equals, for an empty list.
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
