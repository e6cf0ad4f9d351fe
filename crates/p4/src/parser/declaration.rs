//! What stands outside of controls: types, constants, parsers, the package.

use std::rc::Rc;

use crate::ast::{
    ActionDecl, Declaration, Direction, FieldDecl, Instance, Parameter, ParserDecl, State, Transition,
};
use crate::lexer::Kind;

use super::{Parsed, Parser};

impl Parser<'_> {
    /// One declaration; nothing for a `;` that stands alone.
    pub(super) fn declaration(&mut self) -> Parsed<Option<Declaration>> {
        if self.take(Kind::Semicolon) {
            return Ok(None);
        }
        self.annotations()?;
        let span = self.span();
        if !self.is_at(Kind::Word) {
            return self.unexpected("a declaration");
        }
        let declaration = match self.text_at(0) {
            "const" => Declaration::Const(self.variable()?),
            "typedef" | "type" => self.typedef()?,
            "enum" => self.enumeration()?,
            "struct" | "header" => self.structure()?,
            "error" => {
                self.advance();
                Declaration::Errors(self.names()?)
            }
            "match_kind" => {
                self.advance();
                Declaration::MatchKinds(self.names()?)
            }
            "parser" => Declaration::Parser(Rc::new(self.parser_declaration()?)),
            "control" => Declaration::Control(Rc::new(self.control_declaration()?)),
            "action" => Declaration::Action(Rc::new(self.action()?)),
            "header_union" => return self.refuse_declaration("`header_union` is"),
            "extern" => return self.refuse_declaration("an `extern` of one's own is"),
            "package" => return self.refuse_declaration("a `package` of one's own is"),
            "muTable" | "table" => {
                return self
                    .sink
                    .error(span, "tables are declared inside a control")
                    .help("move it into the control that applies it")
                    .refused();
            }
            _ if self.is_function() => return self.refuse_declaration("a function is"),
            _ => Declaration::Instance(self.instance()?),
        };
        Ok(Some(declaration))
    }

    fn refuse_declaration<T>(&mut self, construct: &str) -> Parsed<T> {
        let span = self.span();
        self.sink.refuse(span, construct).refused()
    }

    /// `type name(type ...` declares a function, `type(...) name` an instance.
    fn is_function(&self) -> bool {
        let mut ahead = 1;
        if self.peek(ahead).kind == Kind::Less {
            while !matches!(self.peek(ahead).kind, Kind::Greater | Kind::End | Kind::Semicolon) {
                ahead += 1;
            }
            ahead += 1;
        }
        self.peek(ahead).kind == Kind::Word && self.peek(ahead + 1).kind == Kind::OpenParen
    }

    fn typedef(&mut self) -> Parsed<Declaration> {
        if self.advance_is("type") {
            let span = self.tokens[self.at - 1].span;
            return self.sink.refuse(span, "`type` is").help("`typedef` is in it").refused();
        }
        let ty = self.ty()?;
        let name = self.name()?;
        self.expect(Kind::Semicolon, "`;`")?;
        self.declare_type(&name);
        Ok(Declaration::Typedef(FieldDecl { ty, name }))
    }

    fn advance_is(&mut self, word: &str) -> bool {
        let is_it = self.is_word(word);
        self.advance();
        is_it
    }

    fn enumeration(&mut self) -> Parsed<Declaration> {
        self.advance();
        let base = if self.starts_type(0) { Some(self.ty()?) } else { None };
        let name = self.name()?;
        self.declare_type(&name);
        self.expect(Kind::OpenBrace, "`{`")?;
        let members = self.separated(Kind::CloseBrace, "`}`", |parser| {
            let member = parser.name()?;
            let value = if parser.take(Kind::Assign) { Some(parser.expression()?) } else { None };
            Ok((member, value))
        })?;
        Ok(Declaration::Enum { name, base, members })
    }

    fn structure(&mut self) -> Parsed<Declaration> {
        let is_header = self.advance_is("header");
        let name = self.name()?;
        if self.is_at(Kind::Less) {
            let span = self.span();
            return self.sink.refuse(span, "a type with type parameters is").refused();
        }
        // Even if a field is wrong, the name is a type.
        self.declare_type(&name);
        let fields = self.fields()?;
        Ok(Declaration::Struct { name, fields, is_header })
    }

    /// `{ type name; ... }`
    pub(super) fn fields(&mut self) -> Parsed<Vec<FieldDecl>> {
        self.block(|parser| {
            parser.annotations()?;
            let ty = parser.ty()?;
            let name = parser.member_name()?;
            parser.expect(Kind::Semicolon, "`;`")?;
            Ok(FieldDecl { ty, name })
        })
    }

    fn names(&mut self) -> Parsed<Vec<crate::ast::Name>> {
        self.expect(Kind::OpenBrace, "`{`")?;
        self.separated(Kind::CloseBrace, "`}`", |parser| parser.name())
    }

    pub(super) fn instance(&mut self) -> Parsed<Instance> {
        let ty = self.ty()?;
        self.expect(Kind::OpenParen, "`(`")?;
        let arguments = self.arguments()?;
        let name = self.name()?;
        if self.is_at(Kind::Assign) {
            let span = self.span();
            return self.sink.refuse(span, "a block of abstract methods is").refused();
        }
        self.expect(Kind::Semicolon, "`;`")?;
        Ok(Instance { ty, arguments, name })
    }

    pub(super) fn parameters(&mut self) -> Parsed<Vec<Parameter>> {
        if self.is_at(Kind::Less) {
            let span = self.span();
            return self.sink.refuse(span, "type parameters are").refused();
        }
        self.expect(Kind::OpenParen, "`(`")?;
        self.separated(Kind::CloseParen, "`)`", |parser| {
            parser.annotations()?;
            let direction = match parser.text_at(0) {
                "in" => Direction::In,
                "out" => Direction::Out,
                "inout" => Direction::InOut,
                _ => Direction::None,
            };
            if direction != Direction::None {
                parser.advance();
            }
            let ty = parser.ty()?;
            let name = parser.name()?;
            if parser.is_at(Kind::Assign) {
                let span = parser.span();
                return parser.sink.refuse(span, "a default for a parameter is").refused();
            }
            Ok(Parameter { direction, ty, name })
        })
    }

    pub(super) fn no_constructor_parameters(&mut self) -> Parsed<()> {
        if !self.is_at(Kind::OpenParen) {
            return Ok(());
        }
        let span = self.advance().span;
        if self.take(Kind::CloseParen) {
            return Ok(());
        }
        self.sink.refuse(span, "constructor parameters are").refused()
    }

    pub(super) fn action(&mut self) -> Parsed<ActionDecl> {
        self.advance();
        let name = self.name()?;
        let parameters = self.parameters()?;
        let body = self.statements()?;
        Ok(ActionDecl { name, parameters, body })
    }

    fn parser_declaration(&mut self) -> Parsed<ParserDecl> {
        self.advance();
        let name = self.name()?;
        let parameters = self.parameters()?;
        self.no_constructor_parameters()?;
        let mut locals = Vec::new();
        let states = self.block(|parser| {
            parser.annotations()?;
            if parser.is_word("state") {
                return parser.state().map(Some);
            }
            if parser.is_word("value_set") {
                let span = parser.span();
                return parser.sink.refuse(span, "`value_set` is").refused();
            }
            locals.push(parser.variable()?);
            Ok(None)
        })?;
        Ok(ParserDecl { name, parameters, locals, states: states.into_iter().flatten().collect() })
    }

    fn state(&mut self) -> Parsed<State> {
        self.advance();
        let name = self.name()?;
        let mut transition = None;
        let body = self.block(|parser| {
            if let Some(span) = parser.is_word("transition").then(|| parser.span()) {
                if transition.is_some() {
                    return parser.sink.error(span, "a state has one transition").refused();
                }
                parser.advance();
                transition = Some(parser.transition()?);
                return Ok(None);
            }
            if transition.is_some() {
                let span = parser.span();
                parser
                    .sink
                    .error(span, "a state's transition is its last statement")
                    .label("is never reached");
            }
            parser.statement().map(Some)
        })?;
        Ok(State { name, body: body.into_iter().flatten().collect(), transition })
    }

    fn transition(&mut self) -> Parsed<Transition> {
        let span = self.span();
        if !self.take_word("select") {
            let name = self.name()?;
            self.expect(Kind::Semicolon, "`;`")?;
            return Ok(Transition::Go(name));
        }
        self.expect(Kind::OpenParen, "`(`")?;
        let keys = self.separated(Kind::CloseParen, "`)`", |parser| parser.expression())?;
        let cases = self.block(|parser| {
            let keyset = parser.keyset()?;
            parser.expect(Kind::Colon, "`:`")?;
            let state = parser.name()?;
            parser.expect(Kind::Semicolon, "`;`")?;
            Ok((keyset, state))
        })?;
        self.take(Kind::Semicolon);
        Ok(Transition::Select { keys, cases, span })
    }
}
