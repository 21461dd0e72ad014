package model

// Nearest returns the candidate with the smallest edit distance to word, if it is near enough for a typing error;
// else "". Words over maxTyped bytes are never typing errors.
func Nearest(word string, candidates []string) string {
	if len(word) > maxTyped {
		return ""
	}
	best, bestDistance := "", len(word)/3+2
	for _, c := range candidates {
		if len(c)-len(word) >= bestDistance || len(word)-len(c) >= bestDistance {
			continue // so many bytes are missing at least
		}
		if d := editDistance(word, c); d < bestDistance {
			best, bestDistance = c, d
		}
	}
	return best
}

// maxTyped bounds a typed word, in bytes.
const maxTyped = 100

// editDistance returns the Levenshtein distance in bytes; two exchanged neighbours count as one edit.
func editDistance(a, b string) int {
	row, above := make([]int, len(b)+1), make([]int, len(b)+1) // above: the row before the one that row replaces
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		before := above
		above = append([]int(nil), row...)
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost = 1 + min(diagonal, row[j], row[j+1])
			}
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				cost = min(cost, 1+before[j-1])
			}
			diagonal, row[j+1] = row[j+1], cost
		}
	}
	return row[len(b)]
}
