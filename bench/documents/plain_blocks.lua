-- What the comparison does not look at: targets of links, marks, languages of code, terms' form.
local function content(element) return element.content end
local function nothing() return {} end

Link, Span, Emph, Strong, Underline, SmallCaps = content, content, content, content, content, content
Superscript, Subscript, Strikeout = content, content, content
Image, RawInline, RawBlock, HorizontalRule = nothing, nothing, nothing, nothing

function Code(code) return pandoc.Str(code.text) end

-- With a language it is set between fences: in code that is only indented, signs could be taken for headings.
function CodeBlock(code) return pandoc.CodeBlock(code.text, pandoc.Attr("", { "text" })) end

-- Its text has to stand in one line.
function Header(header)
  return header:walk({ LineBreak = pandoc.Space, SoftBreak = pandoc.Space })
end

function Div(div) return div.content end

function DefinitionList(list)
  local blocks = pandoc.List()
  for _, entry in ipairs(list.content) do
    blocks:insert(pandoc.Para(entry[1]))
    for _, definition in ipairs(entry[2]) do blocks:extend(definition) end
  end
  return blocks
end
