-- Drop what the comparison ignores: link targets, emphasis, code languages, the form of definition lists.
local function content(element) return element.content end
local function nothing() return {} end

Link, Span, Emph, Strong, Underline, SmallCaps = content, content, content, content, content, content
Superscript, Subscript, Strikeout = content, content, content
Image, RawInline, RawBlock, HorizontalRule = nothing, nothing, nothing, nothing

function Code(code) return pandoc.Str(code.text) end

-- A language gives it fences; indented code could be mistaken for headings.
function CodeBlock(code) return pandoc.CodeBlock(code.text, pandoc.Attr("", { "text" })) end

-- Its text must be on one line.
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
