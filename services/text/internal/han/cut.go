package han

import (
	"strings"
	"unicode/utf8"

	"github.com/busbar-mcp/busbar/services/text/internal/language"
)

const (
	// unknown is the cost of a character that is not a word: more than the cost of most
	// two-character words.
	unknown = 13.0
	// repeated is the cost of a word learnt from the text.
	repeated = 12.0
	// number is the cost of a numeral with its measure word.
	number = 7.0
	// name is the cost of a family name with a given name of one or two
	// characters: less than three unknown characters, more than known words.
	name = 22.0
)

// Cut splits a run of Han characters into words, which together make up the run. learnt holds words of the
// text that the dictionary may lack. Time is linear in the run.
func Cut(run string, learnt map[string]int) []string {
	d := known()
	plain := d.simplify(run)
	if len(plain) != len(run) {
		plain = run // characters of different width: look up as written
	}
	n := utf8.RuneCountInString(run)
	at := make([]int, 0, n+1) // byte offsets of the characters
	for i := range run {
		at = append(at, i)
	}
	at = append(at, len(run))
	best := make([]float32, n+1)
	from := make([]int32, n+1)
	for i := 1; i <= n; i++ {
		best[i] = 1e30
	}
	step := func(i, j int, cost float32) {
		if c := best[i] + cost; c < best[j] {
			best[j], from[j] = c, int32(i)
		}
	}
	for i := range n {
		single, ok := d.cost[plain[at[i]:at[i+1]]]
		if !ok {
			single = unknown
		}
		step(i, i+1, single)
		for j := i + 2; j <= min(n, i+maxWord); j++ {
			word := plain[at[i]:at[j]]
			if cost, ok := d.cost[word]; ok {
				step(i, j, cost)
			}
			if learnt[run[at[i]:at[j]]] > 1 {
				step(i, j, repeated)
			}
			if !d.prefix[word] && (len(learnt) == 0 || j >= i+maxLearnt) {
				break
			}
		}
		if j := numeral(plain, at, i); j > i+1 {
			step(i, j, number)
		}
		if n := min(n, i+3); n > i+1 && isSurname(plain[at[i]:at[i+1]]) {
			for j := i + 2; j <= n; j++ {
				if _, common := d.cost[plain[at[i+1]:at[j]]]; !common && !hasFunction(plain[at[i+1]:at[j]]) {
					step(i, j, name)
				}
			}
		}
	}
	words := make([]string, 0, n/2+1)
	for j := n; j > 0; j = int(from[j]) {
		words = append(words, run[at[from[j]]:at[j]])
	}
	for i, j := 0, len(words)-1; i < j; i, j = i+1, j-1 {
		words[i], words[j] = words[j], words[i]
	}
	return words
}

// maxNumeral bounds a numeral, in characters.
const maxNumeral = 16

// numeral returns the end of a number of at least two characters that starts at i, or i if none
// does.
func numeral(plain string, at []int, i int) int {
	j := i
	for j+1 < len(at) && j < i+maxNumeral && strings.Contains("零〇一二三四五六七八九十百千万亿两", plain[at[j]:at[j+1]]) {
		j++
	}
	return j
}

// hasFunction reports whether one of the characters is a function word: given names have none.
func hasFunction(name string) bool {
	for i, r := range name {
		if language.IsStopword(name[i:i+utf8.RuneLen(r)], language.Chinese) {
			return true
		}
	}
	return false
}

// isSurname reports whether a character is a frequent family name that is
// seldom anything else.
func isSurname(s string) bool {
	return strings.Contains("王李张刘陈杨赵吴徐孙朱胡郭罗郑梁谢宋唐韩冯董萧曹袁邓傅沈曾彭吕苏卢蒋蔡贾魏薛阎潘杜戴钟汪姜范廖邹熊孟秦侯邵毛郝龚崔谭贺顾龙", s)
}
